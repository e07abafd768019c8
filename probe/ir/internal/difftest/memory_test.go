//go:build linux

package difftest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/interp"
)

// bytesAt is memory that holds one buffer.
type bytesAt struct {
	base uint64
	b    []byte
}

func (m bytesAt) ReadMemory(dst []byte, addr uint64) error {
	if addr < m.base || addr-m.base > uint64(len(m.b)) || len(dst) > len(m.b)-int(addr-m.base) {
		return errors.New("not mapped")
	}
	copy(dst, m.b[addr-m.base:])
	return nil
}

// TestMemoryDifferential reads text, bytes and numbers from this process's memory, and from
// unmapped addresses, in the kernel and in the interpreter. Values, faults and cuts must
// agree.
func TestMemoryDifferential(t *testing.T) {
	needRoot(t)
	r := rand.New(rand.NewPCG(3, 4))
	// The buffer ends at the end of its page, and the next page is not mapped.
	page := guardedPage(t)
	base := uint64(uintptr(unsafe.Pointer(&page[0])))
	mem := bytesAt{base, page}
	for round := range testenv.Times(40, 20) {
		for i := range page {
			page[i] = "ab\x00c"[r.IntN(4)]
			if r.IntN(3) > 0 {
				page[i] = byte('a' + r.IntN(2))
			}
		}
		testReads(t, r, mem, round)
	}
	runtime.KeepAlive(page)
}

func testReads(t *testing.T, r *rand.Rand, mem bytesAt, round int) {
	ptr := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(&btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, true), Args: []*ir.Expr{{Op: ir.OpArg}}}
	p := &ir.Program{Name: "reads", IncludeSelf: true, Actions: []ir.Action{{Target: probe.RawTracepoint{Name: "sys_enter"}}}}
	var maps []*ir.Map
	store := func(x *ir.Expr, ty ir.Type) {
		m := &ir.Map{Name: "m" + string(rune('a'+len(maps))), Kind: ir.MapArray, Value: ty}
		maps = append(maps, m)
		p.Actions[0].Body = append(p.Actions[0].Body, &ir.Stmt{Op: ir.StmtSet, Map: m, X: x})
	}
	for _, n := range []int{1 + r.IntN(8), 16, 9 + r.IntN(80), 200} {
		store(&ir.Expr{Op: ir.OpStr, Type: ir.StringType(n), Args: []*ir.Expr{ptr}}, ir.StringType(n))
		store(&ir.Expr{Op: ir.OpStr, Type: ir.StringType(n), Args: []*ir.Expr{ptr, {Op: ir.OpArg, Int: 1}}}, ir.StringType(n))
		store(&ir.Expr{Op: ir.OpBuf, Type: ir.BytesType(n), Args: []*ir.Expr{ptr}}, ir.BytesType(n))
		store(&ir.Expr{Op: ir.OpBuf, Type: ir.BytesType(n), Args: []*ir.Expr{ptr, {Op: ir.OpArg, Int: 1}}}, ir.BytesType(n))
	}
	for _, ty := range intTypes {
		store(&ir.Expr{Op: ir.OpDeref, Type: ty, Args: []*ir.Expr{ptr}}, ty)
	}
	str := &ir.Expr{Op: ir.OpStr, Type: ir.StringType(24), Args: []*ir.Expr{ptr}}
	for _, w := range []string{"ab", "aab", "b", "abab"} {
		store(&ir.Expr{Op: ir.OpHasPrefix, Str: w, Args: []*ir.Expr{str}}, ir.BoolType())
		store(&ir.Expr{Op: ir.OpContains, Str: w, Args: []*ir.Expr{str}}, ir.BoolType())
		store(ir.NewExpr(ir.OpEq, str, ir.NewString(w)), ir.BoolType())
	}
	store(ir.NewExpr(ir.OpLen, str), ir.IntType(4, false))
	store(&ir.Expr{Op: ir.OpTuple, Type: ir.TupleType(ir.Field{Type: ir.IntType(4, false)}, ir.Field{Type: ir.StringType(11)}, ir.Field{Type: ir.Uint64Type()}), Args: []*ir.Expr{
		{Op: ir.OpArg, Int: 1}, resized(str, 11), ir.NewExpr(ir.OpLen, str),
	}}, ir.TupleType(ir.Field{Type: ir.IntType(4, false)}, ir.Field{Type: ir.StringType(11)}, ir.Field{Type: ir.Uint64Type()}))
	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil, nil)
	spec, err := bpf.Compile(p, plan)
	if err != nil {
		t.Fatal(err)
	}
	coll := loadSpec(t, spec)
	defer coll.Close()
	in := interpret(t, p, plan)
	m := &interp.Machine{User: mem}
	for range 12 {
		args := []uint64{mem.base + uint64(r.IntN(len(mem.b)+8)), uint64(r.IntN(30))}
		if r.IntN(6) == 0 {
			args[0], args[1] = 16, uint64(r.Uint64())
		}
		m.Context = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, args[0]), args[1])
		in.run(t, m)
		runRaw(t, coll.Programs["p0"], args...)
		for _, mp := range maps {
			var got []byte
			if err := coll.Maps[mp.Name].Lookup(uint32(0), &got); err != nil {
				t.Fatal(err)
			}
			want := m.Maps[mp]["\x00\x00\x00\x00"]
			if !bytes.Equal(got[:len(want)], want) {
				t.Fatalf("round %d: %s at +%d, %d: %q in the kernel, %q in the interpreter", round, mp, int64(args[0]-mem.base), args[1], got, want)
			}
		}
	}
	var cpus [2][]uint64
	for i, c := range []uint32{check.CntFaults, check.CntTruncated} {
		if err := coll.Maps[check.StatsMap].Lookup(c, &cpus[i]); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(v []uint64) (n uint64) {
		for _, x := range v {
			n += x
		}
		return n
	}
	if f, c := sum(cpus[0]), sum(cpus[1]); f != m.Faults || c != m.Truncated {
		t.Fatalf("round %d: %d faults and %d cuts in the kernel, %d and %d in the interpreter", round, f, c, m.Faults, m.Truncated)
	}
}

// resized returns text cast to another size.
func resized(e *ir.Expr, n int) *ir.Expr {
	return &ir.Expr{Op: ir.OpCast, Type: ir.StringType(n), Args: []*ir.Expr{e}}
}

// TestCurrentTask reads the current task through BTF.
func TestCurrentTask(t *testing.T) {
	needRoot(t)
	setComm(t, testComm)
	testenv.Need(t, testenv.File("/sys/kernel/btf/vmlinux"))
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	out := action.NewArray[uint64]("out", 8)
	name := action.NewCell[[16]byte]("name")
	p := action.NewProgram("task")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		task := c.CurTask()
		out.Set(c, 0, task.TaskPID())
		out.Set(c, 1, task.Member("real_parent").Ptr().TaskPID())
		out.Set(c, 2, c.PPID())
		out.Set(c, 3, task.Member("group_leader->group_leader").Ptr().TaskTID())
		out.Set(c, 6, task.Member("tgid"))
		out.Set(c, 4, task.Member("mm->exe_file->f_flags"))
		out.Set(c, 5, task.Addr("comm").Int().Sub(task.Int()))
		name.Set(c, nil, task.Member("comm").Str(16))
	})
	plan := rawPlan(runningKernel(t), runtime.GOARCH, nil, nil)
	plan.BTF = spec
	l, err := bpf.Load(p.Program, plan)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer l.Close()
	runRaw(t, l.Programs()["p0"], 0, 0)
	initial, _, err := kernel.InitialIDs()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[uint32]int{0: os.Getpid(), 1: os.Getppid(), 2: os.Getppid(), 3: os.Getpid(), 6: initial} {
		var got uint64
		err := l.EBPFMap(out.Map()).Lookup(i, &got)
		if got&kernel.Stranger != 0 && want == 0 {
			continue // the parent of a container's first process is outside
		}
		if err != nil || got != uint64(want) {
			t.Errorf("out[%d] = %d, %v; want %d", i, got, err, want)
		}
	}
	var comm action.Comm
	if err := l.EBPFMap(name.Map()).Lookup(uint32(0), &comm); err != nil || comm.String() != testComm {
		t.Errorf("comm %q, %v", comm, err)
	}
	if st, err := l.Stats(); err != nil || st.Faults != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// guardedPage returns a page of memory that is followed by an unmapped page.
func guardedPage(t *testing.T) []byte {
	t.Helper()
	size := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	if err := unix.Mprotect(b[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return b[size-256 : size : size]
}

// TestTextToTheEndOfMemory: text of a known length was read with the byte behind it, and was
// empty if that was in a page that is not there.
func TestTextToTheEndOfMemory(t *testing.T) {
	needRoot(t)
	page := guardedPage(t)
	for i := range page {
		page[i] = 'a'
	}
	end := uint64(uintptr(unsafe.Pointer(&page[0]))) + uint64(len(page))
	ptr := &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(nil, true), Args: []*ir.Expr{{Op: ir.OpArg}}}
	text := &ir.Expr{Op: ir.OpStr, Type: ir.StringType(16), Args: []*ir.Expr{ptr, {Op: ir.OpArg, Int: 1}}}
	length := []*ir.Expr{ir.NewExpr(ir.OpLen, text)}
	for _, c := range []struct{ before, n, want uint64 }{{5, 5, 5}, {5, 4, 4}, {5, 6, 0}, {15, 15, 15}, {15, 100, 15}, {1, 0, 0}} {
		got, _ := evaluated(t, runningKernel(t), length, end-c.before, c.n)
		if got[0] != c.want {
			t.Errorf("%d bytes, %d before the end: %d read, want %d", c.n, c.before, got[0], c.want)
		}
	}
	runtime.KeepAlive(page)
}
