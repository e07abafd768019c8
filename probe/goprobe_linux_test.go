package probe

import (
	"bufio"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// buildGo builds the Go workload.
func buildGo(t testing.TB, flags ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Go)
	out := filepath.Join(t.TempDir(), "gotarget")
	args := append(append([]string{"build", "-o", out}, flags...), "testdata/gotarget/main.go")
	if b, err := testenv.Command(t, "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, b)
	}
	return out
}

// TestGoStripped: entries and returns of functions of a stripped Go program
// with 100 goroutines whose stacks grow, against the program's own counts.
func TestGoStripped(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	w := startGo(t, buildGo(t, "-ldflags=-s -w"))
	for i, fn := range []string{"Work", "grow"} {
		t.Run(fn, func(t *testing.T) {
			plan := mustResolve(t, nil, fmt.Sprintf("uprobe::main.%s pid=%d", fn, w.pid()), fmt.Sprintf("uretprobe::main.%s pid=%d", fn, w.pid()))
			ret := plan.Programs[1]
			if len(ret.Sites) < 2 || ret.returnProbe() || ret.Go == nil || !strings.HasPrefix(ret.Go.Version, "go1.") {
				t.Fatalf("want several return instructions of a Go program:\n%s", plan)
			}
			entries := loadCounter(t, &Plan{Programs: plan.Programs[:1]}, probetest.Counting{Value: -1})
			exits := loadCounter(t, &Plan{Programs: plan.Programs[1:]}, probetest.Counting{Value: -1})
			for name, p := range exits.progs {
				entries.progs[name] = p
			}
			l, err := plan.Attach(entries.progs, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			total := uint64(0)
			for range 5 {
				total += w.round([]int{100, 2}[i])[i]
			}
			if got := entries.read(t, 0).Count; got != total {
				t.Errorf("%d entries, the program counted %d", got, total)
			}
			if got := exits.read(t, 0).Count; got != total {
				t.Errorf("%d returns, the program counted %d", got, total)
			}
		})
	}
}

// TestGoArguments: behind the stack check the arguments are where they were.
func TestGoArguments(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	path := buildGo(t)
	w := startGo(t, path)
	plan := mustResolve(t, &Options{DWARF: true}, fmt.Sprintf("uprobe::main.grow pid=%d", w.pid()))
	p := &plan.Programs[0]
	if p.FallbackReason == "" || len(p.Args) != 3 || p.Args[0].Name != "depth" || p.Args[0].Loc.Kind != LocationReg {
		t.Fatalf("\n%s", plan)
	}
	n, _ := attachCounter(t, plan, probetest.Counting{Value: goFirstArg()})
	// At the first instruction, where nobody puts a probe that asks by name.
	at := plan.Programs[0].Sites[0].Address - behind(t, path, "main.grow")
	first, _ := attachCounter(t, mustResolve(t, nil, fmt.Sprintf("uprobe::%#x pid=%d", at, w.pid())), probetest.Counting{Value: -1})
	const each = 5
	counts := w.round(each)
	if got := first.read(t, 0).Count; got <= counts[1] {
		t.Errorf("%d arrivals at the first instruction in %d calls: no stack has grown", got, counts[1])
	}
	// Each of the calls from outside goes from depth (i*13+g)%60 to 0.
	var sum uint64
	for g := range 100 {
		for i := range each {
			d := uint64((i*13 + g) % 60)
			sum += d * (d + 1) / 2
		}
	}
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: counts[1], Sum: sum})
}

// behind is the length of a function's stack check.
func behind(t *testing.T, path, name string) (n uint64) {
	t.Helper()
	f, err := elffile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = userfile.Symbols(t.Context(), f, func(b []byte) bool { return string(b) == name }, func(s userfile.Symbol) error {
		n = usercode.BehindStackCheck(f, s)
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%s: %d, %v", name, n, err)
	}
	return n
}

// goFirstArg is where the first integer argument of a Go function is in pt_regs.
func goFirstArg() int16 {
	if runtime.GOARCH == "arm64" {
		return 0
	}
	return 80 // rax
}

// goWorkload is the Go target at work.
type goWorkload struct {
	t   *testing.T
	cmd *testenv.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startGo(t *testing.T, path string) *goWorkload {
	t.Helper()
	w := &goWorkload{t: t, cmd: testenv.Command(t, path)}
	in, out := testenv.Piped(t, w.cmd)
	w.in = in
	t.Cleanup(func() {
		w.in.Close()
		w.cmd.Wait()
	})
	w.out = bufio.NewScanner(out)
	return w
}

func (w *goWorkload) pid() int { return w.cmd.Process.Pid }

// round has every goroutine call so many times, and returns what the program
// counted: calls of Work and of grow.
func (w *goWorkload) round(each int) (counts [2]uint64) {
	w.t.Helper()
	fmt.Fprintln(w.in, each)
	if !w.out.Scan() {
		w.t.Fatal("the program died")
	}
	if _, err := fmt.Sscan(w.out.Text(), &counts[0], &counts[1]); err != nil {
		w.t.Fatal(err)
	}
	return counts
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
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	if got := plan.Programs[0].Go.GoidOffset; got != want {
		t.Errorf("goid at %d, DWARF says %d (%s)", got, want, plan.Programs[0].Go.Version)
	}
}

// TestGoExternal: a Go program that a C linker has put together, whose code begins
// behind C's. Without symbols, its functions were looked for where C's are, and a
// breakpoint put there.
func TestGoExternal(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Long, testenv.Go, testenv.Tool("gcc"), testenv.Tool("strip"))
	dir := t.TempDir()
	main, err := os.ReadFile("testdata/gotarget/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module gotarget\n\ngo 1.22\n", "main.go": string(main),
		"c.go": "package main\n\n// int one(int x) { return x; }\nimport \"C\"\n\nvar _ = C.one(1)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	whole, stripped := filepath.Join(dir, "whole"), filepath.Join(dir, "stripped")
	for _, args := range [][]string{
		{"go", "build", "-ldflags=-linkmode=external", "-o", whole, "."}, {"strip", "-s", "-o", stripped, whole},
	} {
		cmd := testenv.Command(t, args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	var at [2][]uint64
	for i, path := range []string{whole, stripped} {
		plan := mustResolve(t, nil, "uprobe:"+path+":main.Work", "uretprobe:"+path+":main.grow")
		for _, p := range plan.Programs {
			for _, s := range p.Sites {
				if at[i] = append(at[i], s.Address); !s.Boundary {
					t.Errorf("%s at %#x is not proven", s.Target, s.Address)
				}
			}
		}
	}
	if len(at[0]) < 3 || !slices.Equal(at[0], at[1]) {
		t.Errorf("%#x, and without symbols %#x", at[0], at[1])
	}
}

func TestUprobeSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(featureUprobeSession))
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{EntryReturn: true}, "uprobe:"+probetest.TargetPath()+":add")
	if plan.Programs[0].AttachType != AttachUprobeSession {
		t.Fatalf("no session:\n%s", plan)
	}
	n, _ := attachCounter(t, plan, probetest.Counting{Value: -1, Sites: true})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times}) // entry and return
}

func TestKprobeSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(featureKprobeSession))
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{EntryReturn: true}, "kprobe:"+probetest.GetppidFunc())
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1, Sites: true})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: 2 * probetest.Times})
}

// TestKretprobeOfSessions: where sessions are asked for, a kretprobe is still none.
func TestKretprobeOfSessions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Feature(featureKprobeSession))
	w := probetest.Start(t)
	plan := mustResolve(t, &Options{EntryReturn: true}, "kretprobe:"+probetest.GetppidFunc())
	n, _ := attachCounter(t, plan, probetest.Counting{PID: w.PID(), Value: -1, Sites: true})
	w.Run()
	probetest.ExpectTally(t, n.read(t, 0), probetest.Tally{Count: probetest.Times})
}
