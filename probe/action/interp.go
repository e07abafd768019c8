package action

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
)

// Machine is what an interpreted program sees and leaves behind: a recorded
// context, memory, builtins and maps. It stands for one CPU. The zero value has
// nothing in it: memory reads fail (zeros, counted), builtins are 0.
//
// Use one Machine for successive runs to have them share maps. It is used by
// one goroutine at a time.
type Machine struct {
	// Context is the program's context, as bytes in little-endian order.
	Context []byte
	// Kernel and User are the two address spaces; nil fails every read.
	// ContextAddr is where Kernel has the context, for tracepoint records
	// with dynamic arrays.
	Kernel, User stack.Memory
	ContextAddr  uint64
	// Builtin gives a builtin by name; nil gives zeros.
	Builtin func(name string) uint64
	// Comm is the builtin comm.
	Comm string
	// Stack gives the PCs of kstack (user false) or of ustack, however it is walked; nil gives none.
	Stack func(user bool) []uint64

	// Packet gives the bytes of the struct sk_buff at an address, at most n of them;
	// what it does not give, or if it is nil, is zeros.
	Packet func(skb uint64, n int) []byte

	// Maps are the entries of plain maps and aggregations, by the kernel's
	// key bytes, values as the kernel holds them on one CPU.
	Maps map[*Map]map[string][]byte
	// Events are the payloads that were emitted, by buffer.
	Events map[*Map][][]byte
	// Faults and Truncated count as Stats does. Lost counts by map.
	Faults, Truncated uint64
	Lost              map[*Map]uint64
	// ExitRequested is set by StmtExit, with its code, Signal by StmtSignal: the
	// signal's number.
	ExitRequested bool
	ExitCode      int32
	Signal        uint32
	// Return is the value of StmtOverride, and whether there was one.
	Return     uint64
	Overridden bool
	// Skipped is set by StmtSkip; Cookie is what StmtCookie keeps, and what the
	// builtin session_cookie reads.
	Skipped bool
	Cookie  uint64
}

// Interp is a program ready to be interpreted for one program of a plan. It
// is immutable and safe for concurrent use with different Machines.
//
// It exists to test what the compiler generates, and to run programs where
// there is no kernel: both are specified by the same rules (eval.go).
type Interp struct {
	c   *checked
	lay *layout
}

// NewInterp checks the program for program i of the plan.
func NewInterp(p *Program, plan *probe.Plan, i int) (*Interp, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	if plan == nil {
		return nil, errNoPlan
	}
	lay, err := newLayout(p, plan)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(plan.Programs) {
		return nil, fmt.Errorf("program %d of %d", i, len(plan.Programs))
	}
	c, err := check(p, plan, i, nil)
	if err != nil {
		return nil, err
	}
	return &Interp{c: c, lay: lay}, nil
}

// val is a value: n if it is a scalar, canonical, else b.
type val struct {
	n uint64
	b []byte
}

// run is one run of a program.
type run struct {
	*Machine
	in   *Interp
	vars map[*Var]val
	left int // steps, so that a run ends
}

// control says how a statement ended.
type control uint8

const (
	goOn control = iota
	doBreak
	doContinue
	doReturn
)

var errSteps = errors.New("interpreted program runs too long")

// Run interprets the program once. The error says that the program could not
// be interpreted; what happens to a program in the kernel is in the Machine.
func (in *Interp) Run(m *Machine) error {
	if m.Maps == nil {
		m.Maps = map[*Map]map[string][]byte{}
	}
	if m.Events == nil {
		m.Events = map[*Map][][]byte{}
	}
	if m.Lost == nil {
		m.Lost = map[*Map]uint64{}
	}
	r := &run{Machine: m, in: in, vars: map[*Var]val{}, left: 10_000_000}
	for _, v := range in.c.vars {
		r.vars[v] = val{b: make([]byte, v.Type.Size)}
	}
	_, err := r.block(in.c.body)
	return err
}

func (r *run) block(list []*Stmt) (control, error) {
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
func (r *run) expr(e *Expr) val {
	switch e.Op {
	case OpConst:
		return val{n: uint64(e.Int)}
	case OpVar:
		return r.vars[e.Var]
	case OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor, OpShl, OpShr:
		t := e.Type
		if t.Kind == KindPtr {
			t = u64
		}
		return val{n: arith(e.Op, t, r.expr(e.Args[0]).n, r.expr(e.Args[1]).n)}
	case OpEq, OpNe, OpLt, OpLe, OpGt, OpGe:
		return val{n: b2u(r.compare(e))}
	case OpLAnd:
		return val{n: b2u(r.expr(e.Args[0]).n != 0 && r.expr(e.Args[1]).n != 0)}
	case OpLOr:
		return val{n: b2u(r.expr(e.Args[0]).n != 0 || r.expr(e.Args[1]).n != 0)}
	case OpLNot:
		return val{n: b2u(r.expr(e.Args[0]).n == 0)}
	case OpCond:
		if r.expr(e.Args[0]).n != 0 {
			return r.expr(e.Args[1])
		}
		return r.expr(e.Args[2])
	case OpCast:
		return r.cast(e)
	case OpBswap:
		return val{n: bswap(e.Type, r.expr(e.Args[0]).n)}
	case OpTuple:
		return val{b: r.tuple(e)}
	case OpElem:
		f := e.Args[0].Type.Fields[e.Int]
		return fromBytes(f.Type, r.expr(e.Args[0]).b[f.Offset:f.Offset+f.Type.Size])
	case OpMapGet:
		b := r.lookup(e.Map, keyArg(e))
		if b == nil {
			b = make([]byte, e.Type.Size)
		}
		return fromBytes(e.Type, b[:e.Type.Size])
	case OpMapHas:
		return val{n: b2u(r.lookup(e.Map, keyArg(e)) != nil)}
	case OpMapCPU:
		return r.mapCPU(e)
	case OpIndex:
		return r.index(e)
	}
	return r.special(e)
}

// special evaluates what depends on the machine, and text.
func (r *run) special(e *Expr) val {
	switch e.Op {
	case OpString, OpBytes:
		b := make([]byte, e.Type.Size)
		copy(b, e.Str)
		return val{b: b}
	case OpBuiltin:
		return r.builtin(e)
	case opCtx:
		return val{n: r.ctxValue(e)}
	case opLoad:
		return val{n: r.load(e)}
	case OpStr, OpBuf:
		return val{b: r.read(e)}
	case OpPath:
		return val{b: make([]byte, e.Type.Size)}
	case OpHasPrefix:
		b := r.expr(e.Args[0]).b
		return val{n: b2u(len(b) >= len(e.Str) && string(b[:len(e.Str)]) == e.Str)}
	case OpContains:
		return val{n: b2u(r.indexOf(e) >= 0)}
	case OpIndexOf:
		return val{n: uint64(r.indexOf(e))}
	case OpGlob:
		return val{n: b2u(r.glob(e))}
	case OpMemcmp:
		a, b := r.expr(e.Args[0]).b, r.expr(e.Args[1]).b
		return val{n: uint64(bytes.Compare(a[:e.Int], b[:e.Int]))}
	case OpLen:
		if e.Args[0].Type.Kind == KindBytes {
			return val{n: uint64(frames(r.expr(e.Args[0]).b))}
		}
		return val{n: uint64(textLen(r.expr(e.Args[0]).b))}
	case OpStrncmp:
		return val{n: b2u(!equalText(r.expr(e.Args[0]).b, r.expr(e.Args[1]).b, int(e.Int)))}
	case OpKstack, OpUstack, OpUstackWalk:
		return val{b: r.stack(e)}
	}
	return val{b: make([]byte, e.Type.Size)}
}

func textLen(b []byte) int {
	for i, c := range b {
		if c == 0 {
			return i
		}
	}
	return len(b)
}

// equalText compares up to n bytes, and not behind a NUL.
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

func (r *run) compare(e *Expr) bool {
	a, b := r.expr(e.Args[0]), r.expr(e.Args[1])
	t := e.Args[0].Type
	if t.Scalar() {
		return compare(e.Op, t.Kind == KindInt && t.Signed, a.n, b.n)
	}
	equal := string(a.b) == string(b.b)
	if t.Kind == KindString {
		equal = string(a.b[:textLen(a.b)]) == string(b.b[:textLen(b.b)])
	}
	return equal == (e.Op == OpEq)
}

func (r *run) cast(e *Expr) val {
	v := r.expr(e.Args[0])
	switch from := e.Args[0].Type; {
	case e.Type.Scalar() && !from.Scalar():
		return fromBytes(e.Type, v.b)
	case e.Type.Scalar():
		return val{n: norm(e.Type, v.n)}
	case from.Scalar():
		return val{b: toBytes(from, v)}
	}
	b := make([]byte, e.Type.Size)
	copy(b, v.b)
	if e.Type.Kind == KindString {
		b[len(b)-1] = 0
	}
	return val{b: b}
}

func (r *run) tuple(e *Expr) []byte {
	b := make([]byte, e.Type.Size)
	for i, f := range e.Type.Fields {
		copy(b[f.Offset:], toBytes(f.Type, r.expr(e.Args[i])))
	}
	return b
}

// toBytes and fromBytes convert between a value and its memory.
func toBytes(t Type, v val) []byte {
	if !t.Scalar() {
		return v.b
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v.n)
	return b[:t.Size]
}

func fromBytes(t Type, b []byte) val {
	if !t.Scalar() {
		return val{b: b}
	}
	var w [8]byte
	copy(w[:], b)
	n := binary.LittleEndian.Uint64(w[:])
	if t.Kind == KindBool {
		return val{n: n}
	}
	return val{n: norm(t, n)}
}

func (r *run) builtin(e *Expr) val {
	if e.Str == "comm" {
		b := make([]byte, e.Type.Size)
		copy(b[:len(b)-1], r.Comm)
		return val{b: b}
	}
	if e.Str == "session_cookie" {
		return val{n: r.Cookie}
	}
	if r.Builtin == nil {
		return val{}
	}
	return val{n: norm(e.Type, r.Builtin(e.Str))}
}

func (r *run) ctxValue(e *Expr) uint64 {
	word := func(off, size int) uint64 {
		var w [8]byte
		if off >= 0 && off+size <= len(r.Context) {
			copy(w[:], r.Context[off:off+size])
		}
		return binary.LittleEndian.Uint64(w[:])
	}
	switch e.ctx.kind {
	case ctxAddr:
		return r.ContextAddr + uint64(e.ctx.off)
	case ctxDataLoc:
		return r.ContextAddr + word(e.ctx.off, 4)&0xffff
	case ctxRelLoc:
		return r.ContextAddr + word(e.ctx.off, 4)&0xffff + uint64(e.ctx.off) + 4
	}
	v := word(e.ctx.off, e.ctx.size)
	if e.Type.Kind == KindBool {
		return v & 1
	}
	t := e.Type
	if t.Signed && t.Size > e.ctx.size {
		t.Size = e.ctx.size
	}
	return norm(t, v)
}

// readAt reads memory, counting what cannot be read.
func (r *run) readAt(b []byte, addr uint64, user bool) bool {
	m := r.Kernel
	if user {
		m = r.User
	}
	if m == nil || m.ReadMemory(b, addr) != nil {
		clear(b)
		r.Faults++
		return false
	}
	return true
}

func (r *run) load(e *Expr) uint64 {
	size := e.Type.Size
	if e.bits != (bitField{}) {
		size = e.word
	}
	var w [8]byte
	r.readAt(w[:size], r.expr(e.Args[0]).n+uint64(e.Int), e.Args[0].Type.User)
	v := binary.LittleEndian.Uint64(w[:])
	if e.bits == (bitField{}) {
		return norm(e.Type, v)
	}
	v <<= e.bits.shl
	if e.Type.Signed {
		return uint64(int64(v) >> e.bits.shr)
	}
	return v >> e.bits.shr
}

// read reads text or bytes.
func (r *run) read(e *Expr) []byte {
	b := make([]byte, e.Type.Size)
	addr, user := r.expr(e.Args[0]).n, e.Args[0].Type.User
	n := uint64(len(b))
	if len(e.Args) == 2 {
		n = min(n, r.expr(e.Args[1]).n)
	}
	if e.Op == OpBuf {
		if n > 0 {
			r.readAt(b[:n], addr, user)
		}
		return b
	}
	if len(e.Args) == 2 {
		n++
	}
	n = min(n, uint64(len(b)))
	// The helper reads n bytes unless a NUL comes before, and fails if it cannot,
	// although it keeps one less.
	one := make([]byte, 1)
	for i := range n {
		if !r.readAt(one, addr+i, user) {
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

func (r *run) stack(e *Expr) []byte {
	b := make([]byte, e.Type.Size)
	if r.Stack == nil {
		return b
	}
	pcs := r.Stack(e.Op != OpKstack)
	for i := range min(len(pcs)-e.Skip, int(e.Int)) {
		binary.LittleEndian.PutUint64(b[8*i:], pcs[e.Skip+i])
	}
	return b
}
