package script_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/script"
)

// writeCases writes a file of cases again, if the tests run with -update.
func writeCases(t *testing.T, file string, list []script.Case) {
	t.Helper()
	if !*update {
		return
	}
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "=== %s\n%s---\n%s", c.Name, c.Text, c.Want)
		if c.Warned != "" {
			fmt.Fprintf(&b, "+++\n%s", c.Warned)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBegin: what scripts without other probes print, to the byte.
func TestBegin(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	list := script.Cases(t, "testdata/begin.txt")
	for i, c := range list {
		t.Run(c.Name, func(t *testing.T) {
			var out, said bytes.Buffer
			p := script.MustCompile(t, c.Text, c.Options())
			if _, err := p.Run(t.Context(), &script.RunOptions{Stdout: &out, Stderr: &said}); err != nil {
				t.Fatal(err)
			}
			attached, warned, _ := strings.Cut(said.String(), "\n")
			if attached != "Attached 1 probe" && attached != "Attached 2 probes" {
				t.Errorf("it said %s", attached)
			}
			if *update {
				list[i].Want, list[i].Warned = out.String(), warned
			} else if out.String() != c.Want || warned != c.Warned {
				t.Errorf("it printed\n%s\nand warned\n%s\nwant\n%s\nand\n%s", &out, warned, c.Want, c.Warned)
			}
		})
	}
	writeCases(t, "testdata/begin.txt", list)
}

// TestBeside: bpftrace 0.17 prints the same, but for empty lines, where its language is the same.
func TestBeside(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tool("bpftrace"), testenv.Long)
	for _, c := range script.Cases(t, "testdata/begin.txt") {
		name, alike := strings.CutSuffix(c.Name, ", as 0.17")
		if !alike {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("begin {", "BEGIN {", "end {", "END {").Replace(c.Text)
			if !strings.Contains(text, "exit()") {
				text += "interval:ms:50 { exit(); }"
			}
			cmd := testenv.Command(t, "bpftrace", "-e", text)
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			_, theirs, _ := strings.Cut(string(out), "\n") // Attaching N probes...
			if got, want := lines(theirs), lines(c.Want); !slices.Equal(got, want) {
				t.Errorf("bpftrace prints\n%s\nwant\n%s", theirs, c.Want)
			}
		})
	}
}

// lines returns the lines of a text that are not empty, without blanks at their ends.
func lines(s string) (list []string) {
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// TestWork: what scripts see of a process whose work is known, to the byte.
func TestWork(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Uprobes, testenv.Tracefs)
	list := script.Cases(t, "testdata/work.txt")
	for i, c := range list {
		t.Run(c.Name, func(t *testing.T) {
			child := startWork(t)
			p := script.MustCompile(t, c.Text, &script.Options{Params: child.params()})
			var out, said bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Attached: func() error {
				defer cancel()
				return child.work()
			}})
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				list[i].Want = out.String()
			} else if out.String() != c.Want {
				t.Errorf("it printed\n%s\nwant\n%s\n%s", &out, c.Want, &said)
			}
		})
	}
	writeCases(t, "testdata/work.txt", list)
}

// TestLoss: what is lost is said: records for which the ring had no room, and entries of maps.
func TestLoss(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	child := startWork(t)
	p := script.MustCompile(t, `config = { perf_rb_pages = 1; max_map_keys = 2 }
tracepoint:syscalls:sys_enter_mkdirat /pid == $1/ { @n++; print((@n, str(args.pathname))); @m[@n] = 1; }
end { print("ended"); }`,
		&script.Options{Params: child.params()})
	var out, said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Attached: func() error {
		defer cancel()
		return child.work()
	}})
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.Count(out.String(), "/no/such/directory")
	want := fmt.Sprintf("WARNING: %d events were lost: the ring was full\n"+
		"WARNING: Map full; can't update element (21 times)", 23-printed)
	if !strings.Contains(out.String(), "ended\n") {
		t.Error("there was no room for what the end probe printed")
	}
	if printed == 0 || printed == 23 || !strings.Contains(said.String(), want) {
		t.Errorf("%d lines were printed, and it said\n%s\nwant\n%s", printed, &said, want)
	}
}

// TestOutOfBounds: an index that is not in the array is said, with its place, when the program runs.
func TestOutOfBounds(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	child := startWork(t)
	p := script.MustCompile(t, `struct a { uint8_t x[4]; }
tracepoint:syscalls:sys_enter_mkdirat /pid == $1/ {
  $i = (uint64)3;
  $a = (struct a *)args.pathname;
  @v[0] = $a.x;
  printf("%c%c", $a.x[$i], @v[0][$i]);
  @ = ($a.x[$i + 1], @v[0][$i + 2]);
  exit();
}`, &script.Options{Params: child.params()})
	var out, said bytes.Buffer
	_, err := p.Run(t.Context(), &script.RunOptions{Stdout: &out, Stderr: &said, Quiet: true, Attached: child.work})
	if err != nil {
		t.Fatal(err)
	}
	const what = "WARNING: Array access out of bounds. This can lead to unexpected results.\n"
	if !strings.HasPrefix(out.String(), "//") || strings.Count(said.String(), what) != 2 ||
		!strings.Contains(said.String(), "stdin:7:8-20: "+what) {
		t.Errorf("printed %q, and said %s", &out, &said)
	}
}

// TestReplay: a recording prints what the run printed.
func TestReplay(t *testing.T) {
	testenv.Need(t, testenv.Native, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	for _, c := range append(script.Cases(t, "testdata/begin.txt"), script.Cases(t, "testdata/work.txt")...) {
		if c.Name == "zero" {
			continue // maps are as they were read
		}
		t.Run(c.Name, func(t *testing.T) {
			child := startWork(t)
			p := script.MustCompile(t, c.Text, &script.Options{Params: child.params()})
			dir := t.TempDir() + "/rec"
			rec, err := recording.Create(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			live, err := p.Run(ctx, &script.RunOptions{Record: rec, Attached: func() error {
				defer cancel()
				return child.work()
			}})
			if err := errors.Join(err, rec.Close()); err != nil {
				t.Fatal(err)
			}
			r, err := recording.Open(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var out bytes.Buffer
			status, err := p.Replay(r, &script.RunOptions{Stdout: &out})
			if err != nil || status != live || out.String() != c.Want {
				t.Errorf("status %d, %v; the replay printed\n%s\nwant %d\n%s", status, err, &out, live, c.Want)
			}
		})
	}
}

var update = flag.Bool("update", false, "write what the cases of testdata print, and record testdata/count, again")

// TestRecordCount records what the Example of Replay prints: the system calls of cat and sleep.
func TestRecordCount(t *testing.T) {
	if !*update {
		return
	}
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	const dir = "testdata/count"
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p := script.MustCompile(t, `tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }`, nil)
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.Run(ctx, &script.RunOptions{Stdout: os.Stdout, Record: rec, Attached: func() error {
		defer cancel()
		return errors.Join(testenv.Command(t, "cat", "/dev/null").Run(), testenv.Command(t, "sleep", "0").Run())
	}})
	if err := errors.Join(err, rec.Close()); err != nil {
		t.Fatal(err)
	}
}

// work is a process that waits, does what is known, and waits again.
type work struct {
	*testenv.Cmd
	in  io.WriteCloser
	out io.Reader
}

func startWork(t *testing.T) *work {
	t.Helper()
	w := newWork(t)
	if err := w.heard(); err != nil {
		t.Fatal(err)
	}
	return w
}

// newWork starts the process, or what executes it.
func newWork(t *testing.T, by ...string) *work {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(by, exe, "-test.run=^TestWorkChild$")
	cmd := testenv.Command(t, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "SCRIPT_WORK=1")
	in, out := testenv.Piped(t, cmd)
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &work{cmd, in, out}
}

// heard waits for a byte of the process.
func (w *work) heard() error {
	_, err := w.out.Read(make([]byte, 1))
	return err
}

// params are the parameters of the scripts: the process, the number of mkdirat, and the registers of
// a Go function's first argument and of the instruction.
func (w *work) params() []string {
	argument, ip := "ax", "ip"
	if runtime.GOARCH == "arm64" {
		argument, ip = "r0", "pc"
	}
	return []string{strconv.Itoa(w.Process.Pid), strconv.Itoa(unix.SYS_MKDIRAT), argument, ip}
}

// work has the process work, and waits until it has.
func (w *work) work() error {
	if _, err := w.in.Write([]byte("\n")); err != nil {
		return err
	}
	return w.heard()
}

// TestWorkChild is the process: 23 calls of mkdirat that fail, and of a function, which is called
// 7 times more.
func TestWorkChild(t *testing.T) {
	if os.Getenv("SCRIPT_WORK") == "" {
		return
	}
	runtime.LockOSThread()
	name := []byte("scriptwork\x00")
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	// The first thread, by whose name the process goes, may be another.
	if err := os.WriteFile("/proc/self/comm", name[:len(name)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	os.Stdout.Write([]byte("."))
	os.Stdin.Read(make([]byte, 1))
	for i := range 23 {
		mode := uint32(0o700)
		if i%2 == 1 && i < 20 {
			mode = 0o755
		}
		unix.Mkdirat(unix.AT_FDCWD, "/no/such/directory", mode)
		called += scriptCall(2)
	}
	for range 7 {
		called += scriptCall(1)
	}
	os.Stdout.Write([]byte("."))
	os.Stdin.Read(make([]byte, 1)) // its symbols are asked for
	os.Exit(0)
}

var called int

//go:noinline
func scriptCall(n int) int { return n + 1 }

// prints runs a program, which must print that.
func prints(t *testing.T, p *script.Program, want string) {
	t.Helper()
	var out bytes.Buffer
	if _, err := p.Run(t.Context(), &script.RunOptions{Stdout: &out}); err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", &out, err, want)
	}
}

// TestPrintEntry: one entry of an aggregation, which the kernel must be able to read.
func TestPrintEntry(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `config = { print_maps_on_exit = 0 }
begin { @c[1] = count(); @c[1] = count(); print(@c[1]); print(@c[2]); @a["x"] = avg(9); print(@a["x"]); }`
	p, err := script.Compile("stdin", text, nil)
	if err != nil {
		testenv.Need(t, testenv.Got("bpf_map_lookup_percpu_elem (5.19)", err, "Missing required kernel feature"))
	}
	prints(t, p, "2\n0\n9\n\n\n")
}

// TestOptions: the values of getopt's options, given and by default.
func TestOptions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `begin { print((getopt("n", 5), getopt("on", false), getopt("name", "none", "a name"))); }`
	for _, c := range []struct {
		values map[string]string
		want   string
	}{
		{nil, "(5, false, none)\n\n\n"},
		{map[string]string{"n": "0x10", "on": "", "name": "some"}, "(16, true, some)\n\n\n"},
	} {
		prints(t, script.MustCompile(t, text, &script.Options{Values: c.values}), c.want)
	}
	for name, value := range map[string]string{"n": "many", "on": "maybe", "nmae": "x"} {
		_, err := script.Compile("stdin", text, &script.Options{Values: map[string]string{name: value}})
		if err == nil {
			t.Errorf("%s=%s is accepted", name, value)
		}
	}
}

// TestForMap: a loop over a map's entries, on kernels that have one (5.13).
func TestForMap(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `config = { print_maps_on_exit = 0 }
begin { @m[1, "a"] = 5; @m[2, "b"] = 7; @t["k"] = 9; for $kv : @m { @sum += $kv.0.0 * 100 + $kv.1; } for $kv : @t { print($kv); } print(@sum);
  @big["x"] = str($1); for $kv : @big { print($kv); } }`
	p, err := script.Compile("stdin", text, &script.Options{Params: []string{"some"}})
	if err != nil {
		testenv.Need(t, testenv.Got("bpf_for_each_map_elem (5.13)", err, "Missing required kernel feature"))
	}
	prints(t, p, "(k, 9)\n@sum: 312\n(x, some)\n\n\n")
}

// TestLongLoops: loops that have more turns than programs may have end, and this is said.
func TestLongLoops(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	for _, text := range []string{
		`begin { while (1) { } print("after"); }`,
		`begin { $n = 1; for $i : $n..100000000 { } print("after"); }`,
	} {
		var out, said bytes.Buffer
		p := script.MustCompile(t, text, nil)
		_, err := p.Run(t.Context(), &script.RunOptions{Stdout: &out, Stderr: &said})
		if err != nil || out.String() != "after\n\n\n" || !strings.Contains(said.String(), "WARNING: This loop ended after ") {
			t.Errorf("%s: %q, %v; it said\n%s", text, &out, err, &said)
		}
	}
}
