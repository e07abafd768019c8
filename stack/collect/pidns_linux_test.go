package collect_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
)

// In a container processes are known by its own numbers: the filters take them,
// samples have them, also of processes in a container inside, and the collector
// leaves itself out. Strangers can be told from all of them.
func TestPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.BTF)
	stranger := startChild(t)
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestInPIDNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), "COLLECT_WORKLOAD=pidns", "GODEBUG=asyncpreemptoff=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	in, out := testenv.Piped(t, cmd)
	var said strings.Builder
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		if line == "attached\n" {
			stranger.work()
			fmt.Fprintln(in)
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "--- PASS") {
		t.Errorf("%v:\n%s", err, said.String())
	}
}

// TestInPIDNamespace is the first process of a container.
func TestInPIDNamespace(t *testing.T) {
	if os.Getenv("COLLECT_WORKLOAD") != "pidns" {
		return
	}
	if os.Getpid() != 1 { // before anything is mounted
		t.Fatalf("process %d, want the first", os.Getpid())
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE}, {"proc", "/proc", "proc", 0}} {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	target := probe.Uprobe{Path: exe, Symbol: "github.com/borescope/borescope/stack/collect_test.leaf"}
	beside, below := startChild(t), startChildIn(t, syscall.CLONE_NEWPID)
	var all []*collect.Collector
	var want []map[int]uint64
	add := func(o *collect.Options, counts map[int]uint64) {
		o.PerThread = true
		c := attach(t, target, o)
		t.Cleanup(func() { c.Close() })
		all, want = append(all, c), append(want, counts)
	}
	const me, stranger = 1, 0
	a, b := beside.cmd.Process.Pid, below.cmd.Process.Pid
	add(&collect.Options{}, map[int]uint64{a: workload, b: workload, stranger: workload})
	add(&collect.Options{IncludeSelf: true}, map[int]uint64{me: workload, a: workload, b: workload, stranger: workload})
	add(&collect.Options{PIDs: []int{a}}, map[int]uint64{a: workload})
	add(&collect.Options{PIDs: []int{b}}, map[int]uint64{b: workload})
	add(&collect.Options{PIDs: []int{me}, IncludeSelf: true}, map[int]uint64{me: workload})
	add(&collect.Options{PIDs: []int{me}}, map[int]uint64{})
	add(&collect.Options{PIDs: []int{a, b}, Hold: true}, map[int]uint64{a: workload, b: workload})
	walker := all[len(all)-1]
	walks := walker.LoadWalker() == nil

	fmt.Println("attached")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // the stranger has called
		t.Fatal(err)
	}
	beside.work()
	below.work()
	caller()
	for i, c := range all {
		samples, _, _ := counted(t, c)
		got := map[int]uint64{}
		for _, s := range samples {
			if s.PID >= kernel.Stranger != (s.TID >= kernel.Stranger) {
				t.Errorf("process %d, thread %d", s.PID, s.TID)
			}
			if s.PID >= kernel.Stranger {
				s.PID = stranger
			}
			got[s.PID] += s.Count
			if c == walker && walks && runtime.GOARCH == "amd64" && (len(s.User.Frames) == 0 || s.User.Frames[0].Source != stack.SourceRegs || s.User.Stopped != stack.StopBottom) {
				t.Errorf("user stack %+v, want one of the walker's", s.User)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want[i]) {
			t.Errorf("collector %d: %v, want %v (%d is a stranger)", i, got, want[i], stranger)
		}
	}
}
