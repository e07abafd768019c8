package probe

import (
	"bufio"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// buildGo builds the Go workload.
func buildGo(t testing.TB, flags ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Go)
	out := filepath.Join(t.TempDir(), "gotarget")
	args := append(append([]string{"build", "-o", out}, flags...), "testdata/gotarget/main.go")
	if b, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, b)
	}
	return out
}

// TestGoStripped: entries and returns of a function of a stripped Go program
// with 100 goroutines whose stacks grow, against the program's own count.
func TestGoStripped(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	path := buildGo(t, "-ldflags=-s -w")
	cmd := exec.Command(path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	answers := bufio.NewScanner(out)

	plan := mustResolve(t, nil, fmt.Sprintf("uprobe::main.Work pid=%d", cmd.Process.Pid), fmt.Sprintf("uretprobe::main.Work pid=%d", cmd.Process.Pid))
	ret := plan.Programs[1]
	if len(ret.Sites) < 2 || ret.returnProbe() || ret.Go == nil || !strings.HasPrefix(ret.Go.Version, "go1.") {
		t.Fatalf("want several return instructions of a Go program:\n%s", plan)
	}
	entries := loadCounter(t, &Plan{Programs: plan.Programs[:1]}, counting{value: -1})
	exits := loadCounter(t, &Plan{Programs: plan.Programs[1:]}, counting{value: -1})
	for name, p := range exits.progs {
		entries.progs[name] = p
	}
	l, err := plan.Attach(entries.progs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var total uint64
	for range 5 {
		fmt.Fprintln(in, 200)
		if !answers.Scan() {
			t.Fatal("the program died")
		}
		var n uint64
		if _, err := fmt.Sscan(answers.Text(), &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if got := entries.read(t, 0).Count; got != total {
		t.Errorf("%d entries, the program counted %d", got, total)
	}
	if got := exits.read(t, 0).Count; got != total {
		t.Errorf("%d returns, the program counted %d", got, total)
	}
}

// TestGoidOffset compares the table with what the toolchain writes into DWARF.
func TestGoidOffset(t *testing.T) {
	path := buildGo(t)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	want := int64(-1)
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		if e.Tag != dwarf.TagStructType || e.Val(dwarf.AttrName) != "runtime.g" {
			continue
		}
		typ, err := d.Type(e.Offset)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range typ.(*dwarf.StructType).Field {
			if m.Name == "goid" {
				want = m.ByteOffset
			}
		}
		break
	}
	abs, _ := filepath.Abs(path)
	plan, err := Resolve(nil, []Target{Uprobe{Path: abs, Symbol: "main.Work"}}, nil)
	if err != nil {
		if isUnsupportedErr(err) && os.Geteuid() != 0 {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if got := plan.Programs[0].Go.GoidOffset; got != want {
		t.Errorf("goid at %d, DWARF says %d (%s)", got, want, plan.Programs[0].Go.Version)
	}
}

func TestUprobeSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(featureUprobeSession))
	w := startTarget(t)
	plan := mustResolve(t, &Options{Session: true}, "uprobe:"+targetPath()+":add")
	if plan.Programs[0].AttachType != attachUprobeSession {
		t.Fatalf("no session:\n%s", plan)
	}
	n, _ := attachCounter(t, plan, counting{value: -1, sites: true})
	w.run()
	expectTally(t, n.read(t, 0), tally{Count: 2 * times}) // entry and return
}

func TestKprobeSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(featureKprobeSession))
	w := startTarget(t)
	plan := mustResolve(t, &Options{Session: true}, "kprobe:ksys_write")
	n, _ := attachCounter(t, plan, counting{pid: w.pid(), value: -1, sites: true})
	w.run()
	expectSoon(t, n, 0, tally{Count: 2})
}
