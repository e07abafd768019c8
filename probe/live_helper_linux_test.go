package probe

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
)

// times is how often the target does everything in one run.
const times = 23

// workload is a running target.
type workload struct {
	t   testing.TB
	cmd *testenv.Cmd
	in  io.WriteCloser
	out io.ReadCloser
}

func startTarget(t testing.TB) *workload {
	t.Helper()
	w := &workload{t: t, cmd: testenv.Command(t, targetPath())}
	w.start()
	return w
}

// start starts the target, which ends with the test. The descriptors whose closing
// tells a parent of the exec are closed before /proc shows the new program
// (begin_new_exec, fs/exec.c of 6.12), so it is waited for.
func (w *workload) start() {
	t := w.t
	t.Helper()
	w.in, w.out = testenv.Piped(t, w.cmd)
	t.Cleanup(func() {
		w.in.Close()
		w.cmd.Wait()
	})
	want, err := os.Stat(w.cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if st, err := os.Stat(procfs.Dir(w.pid()) + "/exe"); err == nil && os.SameFile(st, want) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("process %d does not run %s", w.pid(), w.cmd.Path)
}

func (w *workload) pid() int { return w.cmd.Process.Pid }

// run has the target do everything 23 times, and returns when it is done.
func (w *workload) run() {
	w.t.Helper()
	if _, err := w.in.Write([]byte{'g'}); err != nil {
		w.t.Fatal(err)
	}
	var b [1]byte
	if _, err := io.ReadFull(w.out, b[:]); err != nil {
		w.t.Fatal(err)
	}
}

// keepBusy runs the target again and again until stop, which returns how often it
// did. It rests in between: an emulated guest has one CPU for this and for the test.
func (w *workload) keepBusy() (stop func() int) {
	var end atomic.Bool
	runs := make(chan int, 1)
	go func() {
		n := 0
		defer func() { runs <- n }() // also where run has failed the test
		for ; !end.Load(); n++ {
			w.run()
			time.Sleep(200 * time.Microsecond)
		}
	}()
	return sync.OnceValue(func() int {
		end.Store(true)
		return <-runs
	})
}

// waitBlocked returns when the target waits for its next byte: the read that it
// waits in has begun, and will be over only after the next run has.
func (w *workload) waitBlocked() {
	w.t.Helper()
	want := fmt.Sprintf("%d 0x0 ", unix.SYS_READ) // read(0, …)
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", w.pid()))
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(string(b), want) {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// tally is what a counting program finds out about one site.
type tally struct{ Count, Sum uint64 }

// leftOut reports whether t counts fewer than want, and no fewer than the kernel accounts
// for, which missed so many.
func (t tally) leftOut(want tally, missed uint64) bool {
	return t.Count < want.Count && t.Count+missed >= want.Count
}

// counter is a loaded plan of counting programs.
type counter struct {
	progs map[string]*ebpf.Program
	m     *ebpf.Map
}

// counting says what the counting programs look at.
type counting struct {
	pid int
	// value is the offset in the context of a u64 that is summed up; -1 for none.
	value int16
	// only counts events whose u64 at offset filter is equal.
	filter int16
	equal  int32
	// sites counts by site, through the cookie.
	sites bool
	// key is where events are counted if not by site.
	key int32
	// helper has the value come from bpf_get_func_arg, by the number in value, or
	// from bpf_get_func_ret.
	helper asm.BuiltinFunc
}

// loadCounter loads, for every program of the plan, one that counts.
func loadCounter(t testing.TB, plan *Plan, c counting) *counter {
	t.Helper()
	return loadCounterOn(t, plan, c, nil)
}

// loadCounterOn loads programs for targets in another BPF program.
func loadCounterOn(t testing.TB, plan *Plan, c counting, on *ebpf.Program) *counter {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	specs := map[string]*ebpf.ProgramSpec{}
	for i := range plan.Programs {
		spec := plan.ProgramSpec(i)
		spec.License = "GPL"
		spec.AttachTarget = on
		spec.Instructions = c.instructions(spec.Type, m)
		specs[spec.Name] = spec
	}
	progs, err := plan.load(specs)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { closePrograms(progs) })
	return &counter{progs: progs, m: m}
}

// instructions are a program of type typ that counts in m, or with nil in the collection's
// map "hits".
func (c counting) instructions(typ ebpf.ProgramType, m *ebpf.Map) asm.Instructions {
	ins := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R7, 0)}
	if c.pid != 0 {
		ins = append(ins,
			asm.FnGetCurrentPidTgid.Call(),
			asm.RSh.Imm(asm.R0, 32),
			asm.JNE.Imm(asm.R0, int32(c.pid), "exit"))
	}
	if c.equal != 0 {
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.R6, c.filter, asm.DWord),
			asm.JNE.Imm(asm.R1, c.equal, "exit"))
	}
	switch {
	case c.helper != 0:
		ins = append(ins,
			asm.StoreMem(asm.RFP, -16, asm.R7, asm.DWord), // 0
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -16))
		if c.helper == asm.FnGetFuncArg {
			ins = append(ins, asm.Mov.Reg(asm.R3, asm.R2), asm.Mov.Imm(asm.R2, int32(c.value)))
		}
		ins = append(ins, c.helper.Call(), asm.LoadMem(asm.R7, asm.RFP, -16, asm.DWord))
	case c.value >= 0:
		ins = append(ins, asm.LoadMem(asm.R7, asm.R6, c.value, asm.DWord))
	}
	if c.sites {
		ins = append(ins,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.FnGetAttachCookie.Call(),
			asm.And.Imm(asm.R0, 0xff), // site + 1
			asm.Sub.Imm(asm.R0, 1))
	} else {
		ins = append(ins, asm.Mov.Imm(asm.R0, c.key))
	}
	load := asm.LoadMapPtr(asm.R1, 0).WithReference("hits")
	if m != nil {
		load = asm.LoadMapPtr(asm.R1, m.FD())
	}
	ins = append(ins, asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word))
	return ownIDs(append(ins, tallyUp(typ, load, -4)...))
}

// ownIDs has a program compare processes with the numbers that this test has of
// them, also in a container.
func ownIDs(ins asm.Instructions) asm.Instructions {
	return kernel.OwnPIDNamespace().OwnIDs(ins, true)
}

// tallyUp counts one, and adds up R7, in the map that load puts into R1, at the
// key in the frame, and ends a program of type typ; those that count nothing go on at "exit".
func tallyUp(typ ebpf.ProgramType, load asm.Instruction, key int32) asm.Instructions {
	return asm.Instructions{
		load,
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R7, asm.DWord),
		asm.Mov.Imm(asm.R0, kernel.Idle(typ)).WithSymbol("exit"),
		asm.Return(),
	}
}

// withFunc gives a program's first instruction a function of BTF.
func withFunc(ins asm.Instruction) asm.Instruction {
	return btf.WithFuncMetadata(ins, &btf.Func{
		Name: "entry", Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
		},
	})
}

func (c *counter) read(t testing.TB, i int) tally {
	t.Helper()
	var v tally
	if err := c.m.Lookup(uint32(i), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// missed is how many runs of the programs the kernel left out.
func (c *counter) missed(t testing.TB) (n uint64) {
	t.Helper()
	for _, p := range c.progs {
		st, err := p.Stats()
		if err != nil {
			t.Fatal(err)
		}
		n += st.RecursionMisses
	}
	return n
}

// argOffset is where the first integer argument is in pt_regs, retOffset the
// return value.
func argOffset() int16 {
	if runtime.GOARCH == "arm64" {
		return 0
	}
	return 112 // rdi
}

func retOffset() int16 {
	if runtime.GOARCH == "arm64" {
		return 0
	}
	return 80 // rax
}

// thisMachine is what the tests that don't ask about an Env share, as a program
// does: an emulated guest takes half a second to read the kernel's types.
var thisMachine = sync.OnceValue(func() *Env { return NewEnv(nil) })

func mustResolve(t testing.TB, o *Options, targets ...string) *Plan {
	t.Helper()
	var list []Target
	for _, s := range targets {
		list = append(list, mustParse(t, s))
	}
	plan, err := Resolve(thisMachine(), list, o)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// attachCounter resolves, loads, attaches, and checks when the test ends that
// closing leaves no link of it behind.
func attachCounter(t testing.TB, plan *Plan, c counting) (*counter, *Link) {
	t.Helper()
	n := loadCounter(t, plan, c)
	l, err := plan.Attach(n.progs, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	ids := linkIDs(t, l)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error("second close:", err)
		}
		for _, id := range ids {
			expectGone(t, id)
		}
	})
	return n, l
}

// linkIDs are the ids of the kernel objects that a Link holds.
func linkIDs(t testing.TB, l *Link) []link.ID {
	t.Helper()
	var ids []link.ID
	for _, h := range l.held {
		if !h.link {
			continue
		}
		info, err := kernel.Info(h.fd)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, link.ID(info.ID))
	}
	return ids
}

// expectGone waits for a link to leave the kernel: freeing it may be deferred.
func expectGone(t testing.TB, id link.ID) {
	t.Helper()
	for range 200 {
		l, err := link.NewFromID(id)
		if err != nil {
			return
		}
		l.Close()
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("link %d is still there", id)
}

func expectTally(t testing.TB, got, want tally) {
	t.Helper()
	if got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// getppidFunc is a function of the kernel's that the target calls 23 times in a run,
// whose result is this process's number, and that next to nobody else calls. A
// program of a function that everybody calls is preempted in others now and then,
// and the kernel leaves out what is called on that CPU meanwhile.
func getppidFunc() string {
	if runtime.GOARCH == "arm64" {
		return "__arm64_sys_getppid"
	}
	return "__do_sys_getppid" // SYSCALL_DEFINE0, arch/x86/include/asm/syscall_wrapper.h; __x64_… is its alias
}

// expectWrites is for values of ksys_write that are 1 in each of the target's
// calls, one in a run: how many calls there were is left to getppidFunc.
func expectWrites(t testing.TB, got tally) {
	t.Helper()
	if got.Count == 0 || got.Count > times || got.Sum != got.Count {
		t.Errorf("counted %+v, want 1 of each of up to %d", got, times)
	}
}

func hasCookies() bool { return feature.Test(feature.AttachCookie) == nil }
