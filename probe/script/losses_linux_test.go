package script_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script"
)

// mkdir is a probe of the calls whose number is known.
const mkdir = "tracepoint:syscalls:sys_enter_mkdirat /pid == $1/ "

// unnamed is mkdir for a process that the script does not name: its files are read when it is seen.
const unnamed = "tracepoint:syscalls:sys_enter_mkdirat /pid >= $1 && pid <= $1/ "

// lossCases are ways to lose something, each with what is said: at the end, or when it happens.
// said is a regular expression; counts are those in JSON, "" where they depend on time.
var lossCases = []struct {
	name, text   string
	budget       ir.Budget
	since        string // the kernel that counts it, if that is younger than 5.10
	said, counts string
}{
	{
		name: "ring", text: "config = { perf_rb_pages = 1 } " + mkdir + "{ print(str(args.pathname)); }",
		said: `WARNING: [0-9]+ events were lost: the ring was full\n`,
	},
	{
		name: "full", text: "config = { max_map_keys = 2 } " + mkdir + "{ @n++; @c[@n] = count(); @h[@n] = hist(1); @v[@n] = 1; }",
		said: `WARNING: Map full; can't update element \(63 times\)\. Try increasing`, counts: `"full": 63`,
	},
	{
		name: "faults", text: mkdir + "{ @ = *(uint64 *)8; @s[str((uint8 *)9)] = 1; }",
		said: `WARNING: 46 reads of memory failed: what they read is 0 or empty\n`, counts: `"faults": 46`,
	},
	{
		name: "truncated", text: "config = { max_strlen = 8 } " + mkdir + "{ @[str(args.pathname)] = count(); @whole = str(args.pathname, 4); }",
		said: `WARNING: 23 texts and buffers were cut to the length that they may have \(max_strlen\)\n`, counts: `"truncated": 23`,
	},
	{
		name: "truncated", text: "config = { max_strlen = 8 } " + mkdir + "{ @[buf(args.pathname, args.mode)] = count(); @whole = buf(args.pathname, args.mode % 4); }",
		said: `WARNING: 23 texts and buffers were cut`, counts: `"truncated": 23`,
	},
	{
		name: "limited", text: mkdir + `{ printf("x"); }`, budget: ir.Budget{EventsPerSecond: 1},
		said: `WARNING: [0-9]+ events were left out: the budget has no room for them\n`,
	},
	{
		// Of one firing in each 100 ms there is no room for the second.
		name: "throttled", text: mkdir + `{ $n = 0; while ($n < 2000) { $n++; @ = $n; } }`, budget: ir.Budget{CPUPercent: 0.001},
		said: `WARNING: [0-9]+ firings were left out: the budget has no room for them\n`,
	},
	{
		// Programs of system calls do not keep others from running on each kernel.
		name: "missed", text: "tracepoint:kmem:kmem_cache_alloc /pid == $1 && @n < 23/ { @n++; for $i : 0..100000 { @x = $i; } } " +
			"tracepoint:timer:hrtimer_expire_entry { @ = count(); }",
		since: "6.7",
		said:  `WARNING: [0-9]+ firings were missed: a program was running on the CPU\n`,
	},
	{
		name: "unwalked", text: unnamed + "{ @[ustack(3)] = count(); }",
		said: `% of 23 user stacks are whole; 23 were taken before the files of their process were read, 0 end too early\n`, counts: `"unwalked": 23`,
	},
	{
		name: "cat", text: `config = { max_cat_bytes = 1 } begin { cat("/proc/self/comm"); }`,
		said: `WARNING: 1 files are longer than cat\(\) prints \(max_cat_bytes\)\n`, counts: `"cat": 1`,
	},
	{
		name: "failed", text: `begin { cat("/no/such/file"); }`,
		said: `ERROR: failed to open file '/no/such/file' `, counts: `"failed": 1`,
	},
	{
		name: "loop", text: `begin { while (1) { } }`,
		said: `stdin:1:9-22: WARNING: This loop ended after [0-9]+ turns`, counts: `"runtime_errors": 1`,
	},
	{
		name: "missing", text: `config = { missing_probes = "warn" } begin { } tracepoint:syscalls:sys_enter_none { } profile:hz:100000000 { } interval:s:100 { } `,
		said: `WARNING: attach perf:cpu-clock:hz:100000000: .*\. Skipping\.\n(.*\n)*Attached 2 probes\n`, counts: `"missing": 2`,
	},
}

// TestLosses: each way to lose something is said, in text and in JSON, and fails a strict run.
func TestLosses(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	for _, c := range lossCases {
		for _, inJSON := range []bool{false, true}[:testenv.Times(2, 1)] {
			t.Run(c.name+map[bool]string{true: " in JSON"}[inJSON], func(t *testing.T) {
				child := startWork(t)
				p := script.MustCompile(t, c.text, &script.Options{Params: child.params(), Budget: c.budget})
				var out, said bytes.Buffer
				ctx, cancel := context.WithCancel(t.Context())
				_, err := p.Run(ctx, &script.RunOptions{
					Stdout: &out, Stderr: &said, JSON: inJSON, Strict: true,
					Attached: func() error {
						if strings.Contains(c.text, ":") { // others end by themselves
							defer cancel()
						}
						return child.work()
					},
				})
				if c.since != "" && !feature.KernelAtLeast(c.since) {
					if err != nil || strings.Contains(said.String(), "WARNING") {
						t.Errorf("%v; it said %s", err, &said)
					}
					return
				}
				if !errors.Is(err, script.ErrLost) {
					t.Errorf("the run ended with %v", err)
				}
				got, want := said.String(), c.said
				if inJSON {
					got, want = out.String(), `\n\{"type": "losses", "data": \{`+counts(c.name, c.counts)+`\}\}\n$`
				}
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("no %s in\n%s", want, got)
				}
			})
		}
	}
}

// counts returns what a line of losses has.
func counts(reason, exact string) string {
	if exact == "" {
		return strconv.Quote(reason) + `: [1-9][0-9]*`
	}
	return exact
}

// TestNoLosses: a strict run that loses nothing is one like others.
func TestNoLosses(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	for _, inJSON := range []bool{false, true} {
		out, said := ran(t, `begin { @ = 1; exit(); }`, nil, &script.RunOptions{Strict: true, JSON: inJSON})
		if strings.Contains(out, "losses") || strings.Contains(said, "WARNING") {
			t.Errorf("it printed %s and said %s", out, said)
		}
	}
}

// TestWalkedAtOnce: the first stacks of a process that the script names, or is restricted to, are whole.
func TestWalkedAtOnce(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	for _, restricted := range []bool{false, true} {
		child := startWork(t)
		text, o := mkdir, &script.Options{Params: child.params()}
		if restricted {
			text, o.PID = "tracepoint:syscalls:sys_enter_mkdirat ", child.Process.Pid
		}
		var said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		p := script.MustCompile(t, text+"{ @[ustack] = count(); }", o)
		_, err := p.Run(ctx, &script.RunOptions{Stdout: io.Discard, Stderr: &said, Attached: func() error {
			defer cancel()
			return child.work()
		}})
		if err != nil {
			t.Fatal(err)
		}
		const want = "100.0 % of 23 user stacks are whole; 0 were taken before the files of their process were read, 0 end too early\n"
		if !strings.Contains(said.String(), want) {
			t.Errorf("restricted %t: it said\n%s\nwant %s", restricted, &said, want)
		}
	}
}

// TestWalkedAfterExec: the stacks of a process that executes another program are whole once its files are
// read, the first one of that program, too: only a stack told of it.
func TestWalkedAfterExec(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Tool("sh"))
	for _, o := range []script.Options{{}, {Child: 1}} {
		child := newWork(t, "sh", "-c", `read x; exec "$@"`, "sh")
		filter := "/pid == $1/"
		if o.Params = child.params(); o.Child != 0 {
			filter, o.Child = "/pid == cpid/", child.Process.Pid
		}
		p := script.MustCompile(t, "tracepoint:syscalls:sys_enter_mkdirat "+filter+" { @[ustack] = count(); }", &o)
		var out, said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Attached: func() error {
			defer cancel()
			if err := child.work(); err != nil { // it executes the program
				return err
			}
			time.Sleep(time.Second) // the files are read
			return child.work()
		}})
		if err != nil {
			t.Fatal(err)
		}
		const want = "100.0 % of 23 user stacks are whole; 0 were taken before the files of their process were read, 0 end too early\n"
		if !strings.Contains(said.String(), want) || !strings.Contains(out.String(), "TestWorkChild") {
			t.Errorf("%s: it printed\n%sand said\n%s\nwant %s", filter, &out, &said, want)
		}
	}
}

// TestUnnamed: it is said that addresses have no names because their process had ended before it was
// looked at.
func TestUnnamed(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	child := startWork(t)
	p := script.MustCompile(t, unnamed+"{ @[ustack(2)] = count(); }", &script.Options{Params: child.params()})
	var out, said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Attached: func() error {
		defer cancel() // no record is read before
		err := child.work()
		child.in.Close()
		child.Wait()
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "WARNING: Addresses of 1 processes have no names: they had ended, or run another program, before they were looked at\n"
	if !strings.Contains(said.String(), want) || !strings.Contains(out.String(), "        0x") {
		t.Errorf("it printed\n%s\nand said\n%s\nwant %s", &out, &said, want)
	}
}

// TestReplayLosses: a replay says what the run lost.
func TestReplayLosses(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	p := script.MustCompile(t, `config = { max_map_keys = 1 } begin { @[1] = 1; @[2] = 2; }`, nil)
	dir := t.TempDir() + "/rec"
	rec, err := recording.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), &script.RunOptions{Record: rec})
	if err := errors.Join(err, rec.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var said bytes.Buffer
	_, err = p.Replay(r, &script.RunOptions{Stderr: &said, Strict: true})
	if !errors.Is(err, script.ErrLost) || !strings.HasPrefix(said.String(), "WARNING: Map full; can't update element (1 times).") {
		t.Errorf("%v; the replay said %q", err, &said)
	}
}

// TestJoinLosses: a list whose end was lost, and one that is longer than join() prints, are said.
func TestJoinLosses(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	none := fmt.Sprint("/none/", os.Getpid())
	for n, want := range map[int]string{16: "", 17: "WARNING: 1 lists of join() are longer than it prints, or lost their end\n"} {
		p := script.MustCompile(t, `tracepoint:syscalls:sys_enter_execve /str(args.filename) == str($1)/ { join(args.argv); }`,
			&script.Options{Params: []string{none}})
		var out, said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Quiet: true, Attached: func() error {
			defer cancel()
			if cmd := testenv.Command(t, none, make([]string, n-1)...); cmd.Run() == nil {
				t.Error("a program that is not there ran")
			}
			return nil
		}})
		if err != nil || strings.Count(out.String(), " ") != 15 || said.String() != want {
			t.Errorf("%d arguments: %v; it printed %q and said %q, want %q", n, err, &out, &said, want)
		}
	}
}
