//go:build linux

package action_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir"
)

// TestReadAggregations: a program reads its own aggregations, over all CPUs.
func TestReadAggregations(t *testing.T) {
	count := action.NewCounter[uint32]("count", 64)
	sum := action.NewSum[uint32]("sum", 64)
	least, most := action.NewMin[uint32]("least", 64), action.NewMax[action.None]("most", 1)
	avg := action.NewAvg[uint32]("avg", 64)
	keys := action.NewHash[uint64, uint64]("keys", 64)
	seq := action.NewCell[uint64]("seq")
	got := action.NewArray[int64]("got", 8)
	p := marked("readagg", func(c *action.Ctx) {
		seq.Add(c, nil, 1)
		n := seq.Get(c, nil)
		count.Inc(c, 7)
		sum.Observe(c, n, 7)
		least.Observe(c, n.Sub(5).As(ir.Int64Type()), 7)
		most.Observe(c, n.As(ir.Int64Type()).Sub(100))
		avg.Observe(c, 10, 7)
		keys.Set(c, n.And(15), 1)
		for i, v := range []any{
			count.Value(c, 7), count.Value(c, 8), sum.Value(c, 7), least.Value(c, 7),
			most.Value(c), avg.Mean(c, 7), keys.Len(c), least.Value(c, 8),
		} {
			got.Set(c, i, v)
		}
	})
	s := attachOrSkip(t, p, nil)
	marks(23)
	tab, err := got.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range snap.Entries {
		if want := [...]int64{23, 0, 23 * 24 / 2, -4, -77, 10, 16, 0}[e.Key]; e.Value != want {
			t.Errorf("value %d is %d, want %d", e.Key, e.Value, want)
		}
	}
}

type nested struct {
	PID, NSPID, NSTID, TID uint32
	CPUs                   uint32
	User                   bool
	Args                   [3]struct {
		N    uint32
		Name [12]byte
	}
	List  [4]uint16
	IP    [4]byte
	Comm  action.Comm
	PComm action.Comm
	Kind  [16]byte
	TAI   uint64
	Soft  uint64
}

// TestNestedEvents binds fields at every depth of an event, and builtins that
// the loader has to help with.
func TestNestedEvents(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	ev := action.NewEvents[nested]("ev", 0)
	p := marked("nested", func(c *action.Ctx) {
		list := action.Key(1, c.Arg(1), 3, 4)
		ev.Emit(c, func(e *nested, b *action.Bind) {
			b.Set(&e.PID, c.PID())
			b.Set(&e.TID, c.TID())
			b.Set(&e.NSPID, c.Builtin("nspid"))
			b.Set(&e.NSTID, c.Builtin("nstid"))
			b.Set(&e.CPUs, c.Builtin("ncpus"))
			b.Set(&e.User, c.Builtin("usermode").Ne(0))
			b.Set(&e.Args[0].N, c.Arg(1))
			b.Set(&e.Args[2].Name, "third")
			b.Set(&e.Args[1], action.Key(5, "second"))
			b.Set(&e.List, list)
			b.Set(&e.IP, action.Addr(netip.MustParseAddr("10.1.2.3")))
			b.Set(&e.Comm, action.Select(c.Comm().Glob("*"), c.Comm(), "none"))
			b.Set(&e.PComm, c.PComm())
			b.Set(&e.Kind, action.Str(c.Builtin("probetype")))
			b.Set(&e.Soft, c.Builtin("nsecs_sw_tai"))
			b.Set(&e.TAI, c.Nsecs())
		})
		c.Exit(-3)
	})
	s := attachOrSkip(t, p, nil)
	r, err := ev.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	marks(1)
	var e nested
	if _, err := r.Read(context.Background(), &e); err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case e.NSPID != uint32(os.Getpid()) || e.PID == 0 || e.NSTID == 0 || e.TID == 0:
		t.Errorf("ids: %+v", e)
	case int(e.CPUs) < runtime.NumCPU() || e.User:
		t.Errorf("cpus: %+v", e)
	case e.Args[0].N != uint32(mark) || e.Args[1].N != 5 || action.Text(e.Args[1].Name[:]) != "second" || action.Text(e.Args[2].Name[:]) != "third":
		t.Errorf("args: %+v", e.Args)
	case e.List != [4]uint16{1, uint16(mark), 3, 4} || e.IP != [4]byte{10, 1, 2, 3}:
		t.Errorf("lists: %+v", e)
	case e.PComm.String() != strings.TrimSpace(string(comm)):
		t.Errorf("pcomm %q, want %q", e.PComm, comm)
	case action.Text(e.Kind[:]) != "rawtracepoint":
		t.Errorf("kind %q", e.Kind)
	case e.Soft <= e.TAI:
		t.Errorf("TAI %d at %d", e.Soft, e.TAI)
	}
	if code, err := s.ExitCode(); err != nil || code != -3 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

var (
	data = [6]byte{1, 2, 3, 4, 5, 6}
	long = []byte(strings.Repeat("x", 200) + "\x00")
)

// TestPrintedValues formats what only the reader can: addresses, bytes, stacks.
func TestPrintedValues(t *testing.T) {
	log := action.NewLog("log", 0)
	s := attachOrSkip(t, marked("printed", func(c *action.Ctx) {
		p := c.Const(int64(uintptr(unsafe.Pointer(&data)))).Ptr().User()
		text := c.Const(int64(uintptr(unsafe.Pointer(&long[0])))).UserStr(201)
		log.Printf(c, "%v %v %x %d %s %v", action.IPv4(p.Load(0, ir.Uint64Type())), action.MAC(p), p.Bytes(3), c.Arg(1),
			"constant", action.Bytes([]byte{9, 8}))
		log.Printf(c, "%v", c.Kstack(4))
		log.Printf(c, "%s", text)
	}), nil)
	r, err := log.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	marks(1)
	var line string
	_, err = r.Read(context.Background(), &line)
	if want := fmt.Sprintf("1.2.3.4 01:02:03:04:05:06 010203 %d constant [9 8]", mark); err != nil || line != want {
		t.Errorf("%q, %v; want %q", line, err, want)
	}
	if _, err = r.Read(context.Background(), &line); err != nil || len(strings.Fields(line)) < 2 {
		t.Errorf("stack %q, %v", line, err)
	}
	if _, err = r.Read(context.Background(), &line); err != nil || line != strings.Repeat("x", 127) {
		t.Errorf("long text %q, %v", line, err)
	}
}

type inMemory struct {
	A uint32
	B [2]uint16
	C int64
}

// somewhere does not move, as a goroutine's stack does.
var somewhere = inMemory{A: 5, B: [2]uint16{6, 7}, C: -8}

// TestGoStructsInMemory reads a struct of this process as the Go type that it is.
func TestGoStructsInMemory(t *testing.T) {
	got := action.NewArray[int64]("got", 4)
	s := attachOrSkip(t, marked("structs", func(c *action.Ctx) {
		p := c.Const(int64(uintptr(unsafe.Pointer(&somewhere)))).Ptr().User()
		x := p.Load(0, ir.TypeOf[inMemory]())
		got.Set(c, 0, x.Elem("A"))
		got.Set(c, 1, x.Elem("B").Index(1))
		got.Set(c, 2, x.Elem("B").Index(c.Arg(1).And(1)))
		got.Set(c, 3, x.Elem("C"))
	}), nil)
	marks(1)
	tab, err := got.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range snap.Entries {
		if want := [...]int64{5, 7, 7, -8}[e.Key]; e.Value != want {
			t.Errorf("value %d is %d, want %d", e.Key, e.Value, want)
		}
	}
}

// TestKernelAddresses: Attach looks the symbols up that a program names.
func TestKernelAddresses(t *testing.T) {
	testenv.Need(t, testenv.Root)
	addrs, err := probe.NewEnv(nil).KernelAddresses("vfs_read", "no_such_symbol_here")
	if err != nil || len(addrs) != 1 {
		t.Fatal(addrs, err)
	}
	got := action.NewArray[uint64]("got", 2)
	s := attachOrSkip(t, marked("kaddr", func(c *action.Ctx) {
		got.Set(c, 0, c.KernelAddr("vfs_read").Int())
	}), nil)
	marks(1)
	tab, err := got.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := tab.Snapshot(); err != nil || snap.Entries[0].Value != addrs["vfs_read"] {
		t.Errorf("%v, %v; want %#x", snap, err, addrs["vfs_read"])
	}
	// "file does not exist" was all, of the first one.
	_, err = action.Attach(marked("none", func(c *action.Ctx) {
		got.Set(c, 0, c.KernelAddr("no_such_symbol_here").Int())
		got.Set(c, 1, c.KernelAddr("vfs_raed").Int())
	}), nil)
	if err == nil || !strings.Contains(err.Error(), "no kernel symbol no_such_symbol_here") ||
		!strings.Contains(err.Error(), `vfs_raed; did you mean "vfs_read"`) || strings.Contains(err.Error(), "file does not exist") {
		t.Errorf("symbols that there are not: %v", err)
	}
}

// TestPerCPUVariables reads every CPU's own number, which is a per-CPU variable.
func TestPerCPUVariables(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	env := probe.NewEnv(nil)
	addrs, err := env.KernelAddresses("__per_cpu_offset", "cpu_number", "runqueues")
	if err != nil {
		t.Fatal(err)
	}
	if len(addrs) < 2 {
		testenv.Need(t, testenv.Got("data in kallsyms", &probe.UnsupportedError{
			Feature: "data in kallsyms", Hint: "CONFIG_KALLSYMS_ALL is not set",
		}))
	}
	got := action.NewArray[uint32]("got", 64)
	s := attachOrSkip(t, marked("percpu", func(c *action.Ctx) {
		c.Loop(c.Builtin("ncpus"), 64, func(cpu action.Int) {
			// Not all kernels have the first, nor the type of the second.
			if addrs["cpu_number"] != 0 {
				got.Set(c, cpu, c.KernelAddr("cpu_number").OnCPU(cpu).Load(0, ir.IntType(4, false)).Add(1))
			} else {
				got.Set(c, cpu, c.KernelAddr("runqueues").OnCPU(cpu).Member("cpu").Add(1))
			}
		})
	}), nil)
	marks(1)
	tab, err := got.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range snap.Entries {
		if int(e.Key) < runtime.NumCPU() && e.Value != e.Key+1 {
			t.Errorf("CPU %d says it is %d", e.Key, int(e.Value)-1)
		}
	}
}

// TestCgroupPaths: a cgroup's id and its path lead to each other, and the
// builtin gives the id.
func TestCgroupPaths(t *testing.T) {
	testenv.Need(t, testenv.Root)
	path := ownCgroup(t)
	id, err := action.CgroupID(path)
	if err != nil {
		t.Fatal(err)
	}
	n := action.NewCounter[uint64]("n", 16)
	s := attachOrSkip(t, marked("cgroups", func(c *action.Ctx) { n.Inc(c, c.Cgroup()) }), nil)
	marks(1)
	tab, err := n.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 || snap.Entries[0].Key != id {
		t.Errorf("cgroup %v, %v; want %d", snap, err, id)
	}
	if back, err := action.CgroupPath(id); err != nil || filepath.Clean(back) != filepath.Clean(path) {
		t.Errorf("path %q, %v; want %q", back, err, path)
	}
	if _, err := action.CgroupPath(1 << 60); err == nil {
		t.Error("a cgroup that there is not has a path")
	}
}

// ownCgroup is the path of this process's cgroup in the cgroup2 hierarchy.
func ownCgroup(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	t.Fatalf("no cgroup2 in %q", b)
	return ""
}

// runTarget runs the C program once and waits until it is done.
func runTarget(t *testing.T, target string) {
	t.Helper()
	cmd := testenv.Command(t, target)
	in, out := testenv.Piped(t, cmd)
	if _, err := in.Write([]byte{'g'}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	in.Close()
	_ = cmd.Wait()
}

// TestUserAddress knows where the probed function and another are, and reads
// the code of that.
func TestUserAddress(t *testing.T) {
	testenv.Need(t, testenv.Root)
	target := probetest.OwnTarget(t)
	same := action.NewCount("same")
	p := action.NewProgram("uaddr")
	p.On(probe.Uprobe{Path: target, Symbol: "add"}, func(c *action.Ctx) {
		c.If(c.UserAddr("add").Eq(c.Builtin("ip")).And(c.UserAddr("_start").Ne(c.Builtin("ip"))).And(c.UserAddr("_start").Index(0).Ne(0)), func() { same.Inc(c) })
	})
	s := attachOrSkip(t, p, nil)
	runTarget(t, target)
	if n := total(t, s, same); n != 23 {
		t.Errorf("%d calls at their own address, want 23", n)
	}
}
