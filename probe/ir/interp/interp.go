package interp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/opt"
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/stack"
)

// Machine is the input and output of an interpreted program: a recorded context, memory,
// builtins and maps. It represents one CPU. With the zero value, memory reads fail (they
// return zeros and are counted), and builtins are 0.
//
// Use one Machine for successive runs to have them share maps. Only one goroutine may use it
// at a time.
type Machine struct {
	// Context is the program's context, as bytes in little-endian order.
	Context []byte
	// Kernel and User are the two address spaces; if nil, every read fails. ContextAddr is
	// the address of the context in Kernel, for tracepoint records with dynamic arrays.
	Kernel, User stack.Memory
	ContextAddr  uint64
	// Builtin returns a builtin by name; if it is nil, builtins are 0. It is not asked for
	// ncpus: the machine has one CPU.
	Builtin func(name string) uint64
	// Comm is the builtin comm.
	Comm string
	// Stack returns the program counters of kstack (user false) or ustack, however it is
	// walked; if it is nil, stacks are empty.
	Stack func(user bool) []uint64

	// Packet returns at most n bytes of the struct sk_buff at an address. Bytes that it does
	// not return are zeros, all of them if it is nil.
	Packet func(skb uint64, n int) []byte

	// Maps are the entries of plain maps and aggregations, by the bytes of the kernel's key,
	// with values as the kernel stores them for one CPU.
	Maps map[*ir.Map]map[string][]byte
	// Events are the payloads that were emitted, by buffer.
	Events map[*ir.Map][][]byte
	// Faults and Truncated are as in bpf.Stats. Lost counts values that found no room, by
	// map.
	Faults, Truncated uint64
	Lost              map[*ir.Map]uint64
	// ExitRequested is set by StmtExit, and ExitCode to its code. Signal is the number of the
	// signal of StmtSignal.
	ExitRequested bool
	ExitCode      int32
	Signal        uint32
	// Disabled has programs do nothing, as bpf.Loaded.SetDisabled does. StmtExit sets it if it has Off.
	Disabled bool
	// Traced are the lines of StmtTrace: the format, and the values as bytes.
	Traced []Traced
	// Return is the value of StmtOverride; Overridden is set if there was one.
	Return     uint64
	Overridden bool
	// Skipped is set by StmtSkip. Cookie is stored by StmtCookie and read by the builtin
	// session_cookie.
	Skipped bool
	Cookie  uint64
}

// Traced is what StmtTrace wrote: its format, and the bytes of its values.
type Traced struct {
	Format string
	Values [][]byte
}

// Interp is a program that is ready to be interpreted for one program of a plan. It is
// immutable and safe for concurrent use with different Machines.
//
// It serves to test the code that the compiler generates, and to run programs without a
// kernel.
type Interp struct {
	checked  *check.Checked
	lay      *check.Layout
	failures *ir.Map // ir.Program's
}

// New checks the program for program i of the plan and returns an Interp for it.
func New(p *ir.Program, plan *probe.Plan, i int) (*Interp, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	if plan == nil {
		return nil, errors.New("no plan")
	}
	lay, err := check.NewLayout(p, plan)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(plan.Programs) {
		return nil, fmt.Errorf("program %d of %d", i, len(plan.Programs))
	}
	c, err := check.Check(p, plan, i, nil)
	if err != nil {
		return nil, err
	}
	return &Interp{checked: c, lay: lay, failures: p.Failures}, nil
}

// Optimised returns the program as the compiler generates code for it, after its temporaries
// have been inlined where they are used. It must behave like in: a test that runs both finds
// mistakes of the optimiser.
func (in *Interp) Optimised() *Interp {
	return &Interp{checked: opt.Inline(in.checked), lay: in.lay, failures: in.failures}
}

// val is a value: n, in canonical form, if it is a scalar, else b.
type val struct {
	n uint64
	b []byte
}

// run is one run of a program.
type run struct {
	*Machine
	in   *Interp
	vars map[*ir.Var]val
	left int // steps left, so that every run ends
	// addressed are the variables whose addresses were taken, in order.
	addressed []*ir.Var
}

// control is how a statement ended.
type control uint8

const (
	goOn control = iota
	doBreak
	doContinue
	doReturn
)

var errSteps = errors.New("interpreted program runs too long")

// Run interprets the program once. An error means that the program could not be interpreted.
// Failures that a program can have in the kernel are recorded in m.
func (in *Interp) Run(m *Machine) error {
	if m.Disabled {
		return nil
	}
	if m.Maps == nil {
		m.Maps = map[*ir.Map]map[string][]byte{}
	}
	if m.Events == nil {
		m.Events = map[*ir.Map][][]byte{}
	}
	if m.Lost == nil {
		m.Lost = map[*ir.Map]uint64{}
	}
	r := &run{Machine: m, in: in, vars: map[*ir.Var]val{}, left: 10_000_000}
	for _, v := range in.checked.Vars {
		r.vars[v] = val{b: make([]byte, v.Type.Size)}
	}
	_, err := r.block(in.checked.Body)
	return err
}

func (r *run) block(list []*typed.Stmt) (control, error) {
	for _, s := range list {
		if r.left--; r.left < 0 {
			return doReturn, errSteps
		}
		c, err := r.stmt(s)
		if err != nil || c != goOn {
			return c, err
		}
	}
	return goOn, nil
}

// expr evaluates an expression.
func (r *run) expr(e *typed.Node) val {
	switch e.Op {
	case ir.OpConst:
		return val{n: uint64(e.Int)}
	case ir.OpVar:
		return r.vars[e.Var]
	case ir.OpVarAddr:
		return val{n: r.address(e.Var)}
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl,
		ir.OpShr:
		t := e.Type
		if t.Kind == ir.KindPtr {
			t = ir.Uint64Type()
		}
		return val{n: eval.Arith(e.Op, t, r.expr(e.Args[0]).n, r.expr(e.Args[1]).n)}
	case ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe:
		return val{n: eval.B2u(r.compare(e))}
	case ir.OpLAnd:
		return val{n: eval.B2u(r.expr(e.Args[0]).n != 0 && r.expr(e.Args[1]).n != 0)}
	case ir.OpLOr:
		return val{n: eval.B2u(r.expr(e.Args[0]).n != 0 || r.expr(e.Args[1]).n != 0)}
	case ir.OpLNot:
		return val{n: eval.B2u(r.expr(e.Args[0]).n == 0)}
	case ir.OpCond:
		if r.expr(e.Args[0]).n != 0 {
			return r.expr(e.Args[1])
		}
		return r.expr(e.Args[2])
	case ir.OpCast:
		return r.cast(e)
	case ir.OpBswap:
		return val{n: eval.Bswap(e.Type, r.expr(e.Args[0]).n)}
	case ir.OpTuple:
		return val{b: r.tuple(e)}
	case ir.OpElem:
		f := e.Args[0].Type.Fields[e.Int]
		return fromBytes(f.Type, r.expr(e.Args[0]).b[f.Offset:f.Offset+f.Type.Size])
	case ir.OpMapGet:
		b := r.lookup(e.Map, e.Key())
		if b == nil {
			r.failed(e.Site, 0)
			b = make([]byte, e.Type.Size)
		}
		return fromBytes(e.Type, b[:e.Type.Size])
	case ir.OpMapHas:
		return val{n: eval.B2u(r.lookup(e.Map, e.Key()) != nil)}
	case ir.OpMapCPU:
		return r.mapCPU(e)
	case ir.OpIndex:
		return r.index(e)
	}
	return r.special(e)
}

// special evaluates operations on the machine and on text.
func (r *run) special(e *typed.Node) val {
	switch e.Op {
	case ir.OpString, ir.OpBytes:
		b := make([]byte, e.Type.Size)
		copy(b, e.Str)
		return val{b: b}
	case ir.OpBuiltin:
		return r.builtin(e)
	case typed.Ctx:
		return val{n: r.ctxValue(e)}
	case typed.Load:
		return val{n: r.load(e)}
	case ir.OpStr, ir.OpBuf:
		return val{b: r.read(e)}
	case ir.OpPath:
		return val{b: make([]byte, e.Type.Size)}
	case ir.OpHasPrefix:
		b := r.expr(e.Args[0]).b
		return val{n: eval.B2u(len(b) >= len(e.Str) && string(b[:len(e.Str)]) == e.Str)}
	case ir.OpContains:
		return val{n: eval.B2u(r.indexOf(e) >= 0)}
	case ir.OpIndexOf:
		return val{n: uint64(r.indexOf(e))}
	case ir.OpGlob:
		return val{n: eval.B2u(r.glob(e))}
	case ir.OpMemcmp:
		a, b := r.expr(e.Args[0]).b, r.expr(e.Args[1]).b
		return val{n: uint64(bytes.Compare(a[:e.Int], b[:e.Int]))}
	case ir.OpLen:
		if e.Args[0].Type.Kind == ir.KindBytes {
			return val{n: uint64(eval.Frames(r.expr(e.Args[0]).b))}
		}
		return val{n: uint64(eval.TextLen(r.expr(e.Args[0]).b))}
	case ir.OpStrncmp:
		return val{n: eval.B2u(!equalText(r.expr(e.Args[0]).b, r.expr(e.Args[1]).b, int(e.Int)))}
	case ir.OpKstack, ir.OpUstack, ir.OpUstackWalk:
		return val{b: r.stack(e)}
	}
	return val{b: make([]byte, e.Type.Size)}
}

// equalText compares up to n bytes, but none after a NUL.
func equalText(a, b []byte, n int) bool {
	for i := range min(n, len(a), len(b)) {
		if a[i] != b[i] {
			return false
		}
		if a[i] == 0 {
			return true
		}
	}
	return true
}

func (r *run) compare(e *typed.Node) bool {
	a, b := r.expr(e.Args[0]), r.expr(e.Args[1])
	t := e.Args[0].Type
	if t.Scalar() {
		return eval.Compare(e.Op, t.Kind == ir.KindInt && t.Signed, a.n, b.n)
	}
	equal := string(a.b) == string(b.b)
	if t.Kind == ir.KindString {
		equal = string(a.b[:eval.TextLen(a.b)]) == string(b.b[:eval.TextLen(b.b)])
	}
	return equal == (e.Op == ir.OpEq)
}

func (r *run) cast(e *typed.Node) val {
	v := r.expr(e.Args[0])
	switch from := e.Args[0].Type; {
	case e.Type.Scalar() && !from.Scalar():
		return fromBytes(e.Type, v.b)
	case e.Type.Scalar():
		return val{n: eval.Norm(e.Type, v.n)}
	case from.Scalar():
		return val{b: toBytes(from, v)}
	}
	b := make([]byte, e.Type.Size)
	copy(b, v.b)
	if e.Type.Kind == ir.KindString {
		b[len(b)-1] = 0
	}
	return val{b: b}
}

func (r *run) tuple(e *typed.Node) []byte {
	b := make([]byte, e.Type.Size)
	for i, f := range e.Type.Fields {
		copy(b[f.Offset:], toBytes(f.Type, r.expr(e.Args[i])))
	}
	return b
}

// toBytes and fromBytes convert between a value and its memory.
func toBytes(t ir.Type, v val) []byte {
	if !t.Scalar() {
		return v.b
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v.n)
	return b[:t.Size]
}

func fromBytes(t ir.Type, b []byte) val {
	if !t.Scalar() {
		return val{b: b}
	}
	var w [8]byte
	copy(w[:], b)
	n := binary.LittleEndian.Uint64(w[:])
	if t.Kind == ir.KindBool {
		return val{n: n}
	}
	return val{n: eval.Norm(t, n)}
}

func (r *run) builtin(e *typed.Node) val {
	if e.Str == "comm" {
		b := make([]byte, e.Type.Size)
		copy(b[:len(b)-1], r.Comm)
		return val{b: b}
	}
	if e.Str == "session_cookie" {
		return val{n: r.Cookie}
	}
	if e.Str == "ncpus" {
		return val{n: 1}
	}
	if r.Builtin == nil {
		return val{}
	}
	return val{n: eval.Norm(e.Type, r.Builtin(e.Str))}
}

func (r *run) ctxValue(e *typed.Node) uint64 {
	word := func(off, size int) uint64 {
		var w [8]byte
		if off >= 0 && off+size <= len(r.Context) {
			copy(w[:], r.Context[off:off+size])
		}
		return binary.LittleEndian.Uint64(w[:])
	}
	switch e.Place.Kind {
	case typed.PlaceAddr:
		return r.ContextAddr + uint64(e.Place.Off)
	case typed.PlaceDataLoc:
		return r.ContextAddr + word(e.Place.Off, 4)&0xffff
	case typed.PlaceRelLoc:
		return r.ContextAddr + word(e.Place.Off, 4)&0xffff + uint64(e.Place.Off) + 4
	}
	v := word(e.Place.Off, e.Place.Size)
	if e.Type.Kind == ir.KindBool {
		return v & 1
	}
	t := e.Type
	if t.Signed && t.Size > e.Place.Size {
		t.Size = e.Place.Size
	}
	return eval.Norm(t, v)
}

// readAt reads memory and counts failed reads.
func (r *run) memory(user bool) stack.Memory {
	if user {
		return r.User
	}
	return r.Kernel
}

// readable reports whether a byte can be read.
func (r *run) readable(addr uint64, user bool) bool {
	if one := make([]byte, 1); !user && r.readVariable(one, addr) {
		return true
	}
	m := r.memory(user)
	return m != nil && m.ReadMemory(make([]byte, 1), addr) == nil
}

func (r *run) readAt(b []byte, addr uint64, user bool, site uint32) bool {
	if !user && r.readVariable(b, addr) {
		return true
	}
	m := r.memory(user)
	if m == nil || m.ReadMemory(b, addr) != nil {
		clear(b)
		r.Faults++
		r.failed(site, -efault)
		return false
	}
	return true
}

// The kernel's errors: of a read, and of an update of a map that is full.
const (
	efault = 14
	e2big  = 7
)

// failed adds a record to the program's Failures, if the operation has a site.
func (r *run) failed(site uint32, err int64) {
	if site == 0 {
		return
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(site))
	b = binary.LittleEndian.AppendUint64(b, uint64(err))
	r.Events[r.in.failures] = append(r.Events[r.in.failures], b)
}

func (r *run) load(e *typed.Node) uint64 {
	size := e.Type.Size
	if e.Bits != nil {
		size = e.Bits.Size
	}
	var w [8]byte
	r.readAt(w[:size], r.expr(e.Args[0]).n+uint64(e.Int), e.Args[0].Type.User, e.Site)
	v := binary.LittleEndian.Uint64(w[:])
	if e.Bits == nil {
		return eval.Norm(e.Type, v)
	}
	v <<= e.Bits.Shl
	if e.Type.Signed {
		return uint64(int64(v) >> e.Bits.Shr)
	}
	return v >> e.Bits.Shr
}

// read reads text (OpStr) or bytes (OpBuf).
func (r *run) read(e *typed.Node) []byte {
	b := make([]byte, e.Type.Size)
	addr, user := r.expr(e.Args[0]).n, e.Args[0].Type.User
	n := uint64(len(b))
	if len(e.Args) == 2 {
		most := r.expr(e.Args[1]).n
		if e.Op == ir.OpBuf && most > n {
			r.Truncated++
		}
		n = min(n, most)
	}
	if e.Op == ir.OpBuf {
		if n > 0 {
			r.readAt(b[:n], addr, user, e.Site)
		}
		return b
	}
	if len(e.Args) == 2 {
		n++
	}
	n = min(n, uint64(len(b)))
	// The helper reads n bytes unless a NUL comes before, and fails if it cannot, although it
	// stores at most n-1 of them. Of text with a length those n-1 are read then.
	one := make([]byte, 1)
	for i := range n {
		if len(e.Args) == 2 && i == n-1 && !r.readable(addr+i, user) {
			return b
		}
		if !r.readAt(one, addr+i, user, e.Site) {
			clear(b)
			return b
		}
		if one[0] == 0 {
			return b
		}
		if i < n-1 {
			b[i] = one[0]
		}
	}
	if n == uint64(len(b)) {
		r.Truncated++
	}
	return b
}

func (r *run) stack(e *typed.Node) []byte {
	b := make([]byte, e.Type.Size)
	if r.Stack == nil {
		return b
	}
	pcs := r.Stack(e.Op != ir.OpKstack)
	for i := range min(len(pcs)-e.Skip, int(e.Int)) {
		binary.LittleEndian.PutUint64(b[8*i:], pcs[e.Skip+i])
	}
	return b
}
