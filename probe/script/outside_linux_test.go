package script_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script"
)

// ran runs a script, and returns what it printed and said.
func ran(t *testing.T, text string, o *script.Options, r *script.RunOptions) (out, said string) {
	t.Helper()
	var printed, errs bytes.Buffer
	r.Stdout, r.Stderr = &printed, &errs
	if _, err := script.MustCompile(t, text, o).Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return printed.String(), errs.String()
}

// TestCat: the beginning of a file, and why one is not read. A pipe without a writer is at its end.
func TestCat(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("one\ntwo\x1b[2J\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `begin { cat("%s/%s", str($1), "a"); cat("%s/fifo", str($1)); cat("%s/none", str($1)); }`
	o := &script.Options{Params: []string{dir}}
	out, said := ran(t, text, o, &script.RunOptions{Quiet: true})
	if want := "one\ntwo?[2J\n\n\n"; out != want {
		t.Errorf("it printed %q, want %q", out, want)
	}
	if want := "ERROR: failed to open file '" + dir + "/none' (No such file or directory)\n"; said != want {
		t.Errorf("it said %q, want %q", said, want)
	}
	if out, _ := ran(t, "config = { max_cat_bytes = 2 } "+text, o, &script.RunOptions{JSON: true, Quiet: true}); !strings.Contains(out, `{"type": "cat", "data": "on"}`) {
		t.Errorf("in JSON it printed %s", out)
	}
}

// TestSystem: what a command prints, and how it ends; without permission there is none.
func TestSystem(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tool("sh"))
	const text = `begin { system("echo %d %s; echo err >&2", 1 + 1, "x"); system("echo some; exit 3"); system("kill -9 $$"); print("after"); }
end { system("echo at the end"); }`
	if _, err := script.Compile("stdin", text, nil); err == nil {
		t.Error("commands run without --unsafe")
	}
	out, said := ran(t, text, &script.Options{Unsafe: true}, &script.RunOptions{Quiet: true})
	if want := "2 x\nerr\n\nsome\n\n\nafter\nat the end\n\n\n\n"; out != want {
		t.Errorf("it printed %q, want %q", out, want)
	}
	if want := "ERROR: command exited with code 3\nERROR: child process did not exit normally: signal: killed\n"; said != want {
		t.Errorf("it said %q, want %q", said, want)
	}
}

// TestSystemFlood: of the commands for events before the end of a run some are run, and the rest are counted.
func TestSystemFlood(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Tool("sh"))
	child := startWork(t)
	p := script.MustCompile(t, `tracepoint:syscalls:sys_enter_mkdirat /pid == $1/ { system("echo ran; sleep 0.2"); }
end { system("echo ended"); }`,
		&script.Options{Params: child.params(), Unsafe: true})
	var out, said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Quiet: true, Attached: func() error {
		defer cancel()
		return child.work()
	}})
	ran := strings.Count(out.String(), "ran\n")
	want := fmt.Sprintf("WARNING: %d commands of system() were not run: the script had ended\n", 23-ran)
	if err != nil || ran == 0 || ran > 6 || !strings.Contains(out.String(), "ended\n") || said.String() != want {
		t.Errorf("%d commands ran, %v; it said\n%s\nwant\n%s", ran, err, &said, want)
	}
}

// TestSystemSafe: what a traced process has as its name or argument is no command.
func TestSystemSafe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tool("sh"))
	o := &script.Options{Unsafe: true, Params: []string{"$(echo ran); echo ran `echo ran` 'x' -n"}}
	const text = `begin { system("echo '%s' %s %d", str($1), str($1), -5); system("echo %s", "-n"); }`
	out, _ := ran(t, text, o, &script.RunOptions{Quiet: true})
	const safe = "__echo_ran___echo_ran__echo_ran___x__-n"
	if want := safe + " " + safe + " -5\n\n_n\n\n\n\n"; out != want {
		t.Errorf("it printed %q, want %q", out, want)
	}
	if out, _ = ran(t, `begin { system("echo %s", str($1)); }`, o, &script.RunOptions{Quiet: true, Raw: true}); !strings.HasPrefix(out, "ran") {
		t.Errorf("raw, it printed %q", out)
	}
}

// TestSystemEnds: a command does not outlive the run that waits for it.
func TestSystemEnds(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tool("sh"))
	file := t.TempDir() + "/started"
	p := script.MustCompile(t, `begin { system("touch %s; exec sleep 1000", str($1)); } interval:s:1000 { }`,
		&script.Options{Unsafe: true, Params: []string{file}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Error("the command did not begin")
	}()
	if _, err := p.Run(ctx, nil); err != nil {
		t.Error(err)
	}
}

// TestSeries: intervals with their last, their smallest value and their sum, all up to the same end.
func TestSeries(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `config = { unstable_tseries = enable }
begin { @last["a"] = tseries(7, 100s, 3); @last["a"] = tseries(-5, 100s, 3); @last["b"] = tseries(3, 100s, 3);
  @min = tseries(4, 100s, 2, "min"); @min = tseries(-9, 100s, 2, "min"); @sum = tseries(4, 100s, 2, "sum"); @sum = tseries(5, 100s, 2, "sum"); }`
	out, _ := ran(t, text, nil, &script.RunOptions{})
	values := regexp.MustCompile(`(?m)^\S+ [|*].*[|*] (-?\d+)$`)
	var got []string
	for _, m := range values.FindAllStringSubmatch(out, -1) {
		got = append(got, m[1])
	}
	// An interval may end between two of the script's statements: once in 100 s.
	if strings.Join(got, " ") != "-5 3 -9 9" {
		t.Errorf("values are %v in\n%s", got, out)
	}
	out, _ = ran(t, text, nil, &script.RunOptions{JSON: true})
	if !regexp.MustCompile(`(?m)^{"type": "tseries", "data": {"@min": \[{"interval_start":"[^"]*","value":-9}\]}}$`).MatchString(out) {
		t.Errorf("in JSON it printed\n%s", out)
	}
}

// TestSeriesTime: a map of the script is the clock of its series.
func TestSeriesTime(t *testing.T) {
	const text = `config = { unstable_tseries = enable }
begin { @now = (uint64)5000000000; @s = tseries(7, 1s, 3); @now += 1000000000; @s = tseries(-2, 1s, 3); @s = tseries(4, 1s, 3); }`
	environ := func(clock string) *script.Options {
		return &script.Options{Environ: func(name string) (string, bool) { return clock, name == "BPFTRACE_DUMMY_TS_MAP" }}
	}
	for _, clock := range []string{"@s", "@none"} {
		if _, err := script.Compile("stdin", text, environ(clock)); err == nil || !strings.Contains(err.Error(), clock+" cannot be the time") {
			t.Errorf("%s as the clock: %v", clock, err)
		}
	}
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	out, _ := ran(t, text, environ("@now"), &script.RunOptions{JSON: true})
	start := func(s int64) string { return time.Unix(s, 0).Format("2006-01-02 15:04:05.000000000") }
	want := `{"type": "tseries", "data": {"@s": [{"interval_start":"` + start(5) + `","value":7},{"interval_start":"` + start(6) + `","value":4}]}}`
	if !strings.Contains(out, want+"\n") {
		t.Errorf("it printed\n%s\nwant\n%s", out, want)
	}
}

// TestLongTexts: texts of more than 8 KiB are variables, values, elements of tuples and, where the
// kernel has room for them, keys.
func TestLongTexts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	long := strings.Repeat("x123456789", 950)
	const text = `config = { max_strlen = 9999 }
begin {
  $x = str($1);
  @[1] = $x;
  @key[$x] = strlen($x);
  $t = (1, (2, $x));
  if (strncmp($t.1.1, "x123", 4) == 0) { print($t); }
  $x = "short";
  @[2] = $x;
  printf("%s %d\n", @[2], strlen(@[1]));
}`
	out, said := ran(t, text, &script.Options{Params: []string{long}}, &script.RunOptions{Quiet: true})
	out = strings.ReplaceAll(out, long, "LONG")
	key := "LONG"
	if !feature.KernelAtLeast("6.1") {
		key = long[:511]
	}
	want := "(1, (2, LONG))\nshort 9500\n\n\n@[1]: LONG\n@[2]: short\n@key[" + key + "]: 9500\n"
	if out != want || said != "" {
		t.Errorf("it printed\n%s\nand said %q, want\n%s", out, said, want)
	}
}

// TestFailuresInJSON: failures are lines with bpftrace's fields.
func TestFailuresInJSON(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `struct foo { int a; }; begin { $x = ((struct foo *)0).a; print(@[1]); }`
	out, said := ran(t, text, &script.Options{Failures: true}, &script.RunOptions{JSON: true, Quiet: true})
	const want = `{"type": "helper_error", "msg": "Bad address", "helper": "probe_read", "retcode": -14, "filename": "stdin", "line": 1, "col": 38}
{"type": "value", "data": 0}
{"type": "helper_error", "msg": "Success", "helper": "map_lookup_elem", "retcode": 0, "filename": "stdin", "line": 1, "col": 64}
{"type": "losses", "data": {"faults": 1}}
`
	if out != want || said != "" {
		t.Errorf("it printed\n%s\nand said %q, want\n%s", out, said, want)
	}
}

// TestDebugf: lines are in the kernel's trace, with numbers of 64 bits whole.
func TestDebugf(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	dir := testenv.TracefsDir(t)
	// The kernel does so for each program with debugf(), and since 6.18 a moment after it is loaded.
	if err := os.WriteFile(dir+"/events/bpf_trace/bpf_trace_printk/enable", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("script-%d-", os.Getpid())
	_, said := ran(t, `begin {
  $n = (uint64)1 << 40;
  debugf("`+mark+`a %d %s %x", (int64)-5, "text", $n);
  debugf("`+mark+`b %u and a format that is longer than the stack has room for %d\n", (uint32)7, 8);
  debugf("`+mark+`c");
}`, nil, &script.RunOptions{Quiet: true})
	if said != "" {
		t.Errorf("it said %s", said)
	}
	trace, err := os.ReadFile(dir + "/trace")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a -5 text 10000000000\n", "b 7 and a format that is longer than the stack has room for 8\n", "c\n",
	} {
		if line := "bpf_trace_printk: " + mark + want; !strings.Contains(string(trace), line) {
			t.Errorf("no %q in the trace", line)
		}
	}
}

// TestArgsAsValue: the arguments of a probe are a record, which is printed, kept, and a key.
func TestArgsAsValue(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	ran := func(t *testing.T, text string) string {
		child := startWork(t)
		p := script.MustCompile(t, text, &script.Options{Params: child.params()})
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Attached: func() error {
			defer cancel()
			return child.work()
		}})
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	got := ran(t, `tracepoint:syscalls:sys_exit_mkdirat /pid == $1/ {
  $a = args;
  @[args] = count();
  @r[(n=1, a=$a)] = (args.ret, $a);
  @same[@r[(n=1, a=args)].1.ret == $a.ret] = count();
}`)
	args := fmt.Sprintf("{ .__syscall_nr = %d, .ret = -2 }", unix.SYS_MKDIRAT)
	want := "\n\n@[" + args + "]: 23\n@r[{ .n = 1, .a = " + args + " }]: (-2, " + args + ")\n@same[true]: 23\n"
	if got != want {
		t.Errorf("it printed\n%s\nwant\n%s", got, want)
	}
	t.Run("function", func(t *testing.T) {
		testenv.Need(t, testenv.Fentry)
		got := ran(t, `fentry:ksys_write /pid == $1 && @n < 1/ { @n = 1; print(args); $a = args; print($a.count); }`)
		const hex = `0x[0-9a-f]+`
		want := `^{ \.fd = 1, \.buf = ` + hex + `, \.count = 1 }\n1\n`
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("it printed\n%s", got)
		}
	})
}

// TestIter: an iterator's program runs once for each task, and the script ends with the last one.
func TestIter(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Feature(feature.Iter))
	child := startWork(t)
	// exit() ends the run after the last task.
	const text = `iter:task { @[ctx.task.tgid, ctx.task.pid, ctx.task.comm] = count(); if (ctx.task.tgid == $1) { print(ctx.task.comm); } exit(); }`
	p := script.MustCompile(t, text, &script.Options{Params: child.params()})
	var out bytes.Buffer
	if _, err := p.Run(t.Context(), &script.RunOptions{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	// Threads that it begins have its thread's name, too.
	line := fmt.Sprintf(`(?m)^@\[%s, [0-9]+, scriptwork\]: 1$`, child.params()[0])
	if !regexp.MustCompile(line).Match(out.Bytes()) || !strings.Contains(out.String(), "scriptwork\n") {
		t.Errorf("no %q in\n%s", line, &out)
	}
}

// TestExitedNames: addresses of a process that has ended by the end of the run have names.
func TestExitedNames(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Uprobes)
	child := startWork(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`uprobe:%q:"*scriptCall" /pid == $1/ { @[ustack(1)] = count(); @u[usym(reg(%q))] = count(); @f[func] = count(); print("called"); }`,
		exe, child.params()[3])
	p := script.MustCompile(t, text, &script.Options{Params: child.params()})
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	end := func() { // after the first record: the process was looked at
		go func() {
			defer cancel()
			child.in.Close()
			child.Wait()
		}()
	}
	_, err = p.Run(ctx, &script.RunOptions{
		Stdout: writer(func(b []byte) {
			once.Do(end)
			out.Write(b)
		}),
		Attached: func() error { return child.work() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "script_test.scriptCall"); n != 3 || !strings.Contains(out.String(), "script_test.scriptCall]: 30\n") {
		t.Errorf("the function is named %d times, want 3, in\n%s", n, &out)
	}
	if !regexp.MustCompile(`scriptCall\+0@/.*/run_linux_test\.go:[0-9]+\n`).MatchString(out.String()) {
		t.Errorf("the stack has no source line:\n%s", &out)
	}
}

// TestFunctionOfReturn: func in a uretprobe is the function that returns. It was the one that is
// returned to.
func TestFunctionOfReturn(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Uprobes, testenv.Feature(feature.GetFuncIP))
	w := probetest.StartOwn(t)
	text := fmt.Sprintf("uprobe:%[1]q:add { @in[func] = count(); } uretprobe:%[1]q:add, uretprobe:%[1]q:helper_one { @out[func] = count(); }", w.Path())
	p, err := script.Compile("stdin", text, nil)
	if err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = p.Run(ctx, &script.RunOptions{Stdout: &out, Attached: func() error {
		w.Run()
		cancel()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"@in[add]: 23\n", "@out[add]: 23\n", "@out[helper_one]: 23\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestCallerAtEntry: the first stack of a process that nothing is known of has the caller of a function
// that is probed where it begins, where the frame pointer is still the caller's. It was left out.
func TestCallerAtEntry(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Uprobes)
	w := probetest.StartOwn(t)
	for _, returns := range []string{"", "uretprobe:%[1]q:add { @r = count(); } "} {
		text := fmt.Sprintf("config = { show_debug_info = 0 } "+returns+"uprobe:%[1]q:add /@n == 0/ { @n = 1; print(ustack(2)); }", w.Path())
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := script.MustCompile(t, text, nil).Run(ctx, &script.RunOptions{Stdout: &out, Attached: func() error {
			w.Run()
			cancel()
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`\s+add\+0\n\s+_start\+\d+\n`).MatchString(out.String()) {
			t.Errorf("the caller is missing in\n%s", &out)
		}
	}
}

// TestUSDTNames: with wildcards, each USDT probe counts under its own name, and as one, however many
// places it is at. They counted under the pattern, and as many as the places.
func TestUSDTNames(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Uprobes, testenv.Feature(feature.AttachCookie))
	w := probetest.StartOwn(t)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"usdt:%[1]s:* { @[probe] = count(); }", []string{"@[usdt:%[1]s:target:guarded]: 23\n", "@[usdt:%[1]s:target:twice]: 46\n"}},
		{"usdt:%[1]s:targ*:* { @ = count(); }", []string{"@: 69\n"}},
	} {
		var out, said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		_, err := script.MustCompile(t, fmt.Sprintf(c.text, w.Path()), nil).Run(ctx, &script.RunOptions{
			Stdout: &out, Stderr: &said, Attached: func() error {
				w.Run()
				cancel()
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), strings.ReplaceAll(want, "%[1]s", w.Path())) {
				t.Errorf("%s: no %s in\n%s", c.text, want, &out)
			}
		}
		if !strings.HasPrefix(said.String(), "Attached 2 probes\n") {
			t.Errorf("%s: it said %s", c.text, &said)
		}
	}
}

// startPython starts a program without frame pointers, which computes until the test ends, and returns the
// number of its process.
func startPython(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.File("/usr/bin/python3"))
	cmd := testenv.Command(t, "/usr/bin/python3", "-c", "while True: sum(i * i for i in range(100000))")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// TestWholeStacks: stacks of a program without frame pointers go to its start, once its files were
// read.
func TestWholeStacks(t *testing.T) {
	pid := startPython(t)
	// A second: with the race detector the files were read after 229 samples.
	const text = `profile:hz:499 /pid == $1/ { @n++; if (@n > 500) { @[ustack] = count(); } else { @before = ustack; } if (@n == 900) { exit(); } }
end { clear(@n); clear(@before); }`
	out, said := ran(t, text, &script.Options{Params: []string{pid}}, &script.RunOptions{})
	samples, whole := 0, 0
	for _, part := range strings.Split(out, "@[")[1:] {
		stack, count, ok := strings.Cut(part, "]: ")
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if !ok || err != nil {
			t.Fatalf("%q is no entry", part)
		}
		samples += n
		if lines := strings.Fields(stack); len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "_start+") {
			whole += n
		}
	}
	if samples < 400 || 100*whole < 99*samples { // some more come before exit() is acted on
		t.Errorf("%d of %d stacks end in _start, want 99 %% of at least 400:\n%s%s", whole, samples, out, said)
	}
	if !regexp.MustCompile(`% of 9\d\d user stacks are whole`).MatchString(said) {
		t.Errorf("it said %s", said)
	}
}

// TestFramePointers: the same stacks by frame pointers, which the program has not, do not.
func TestFramePointers(t *testing.T) {
	pid := startPython(t)
	const text = `profile:hz:499 /pid == $1/ { @n++; @[ustack] = count(); if (@n == 100) { exit(); } }
end { clear(@n); }`
	out, said := ran(t, text, &script.Options{Params: []string{pid}, FramePointers: true},
		&script.RunOptions{})
	stacks := strings.Split(out, "@[")[1:]
	whole := 0 // such as those from before main
	for _, s := range stacks {
		if strings.Contains(s, "_start+") {
			whole++
		}
	}
	if len(stacks) == 0 || 2*whole > len(stacks) || strings.Contains(said, "are whole") {
		t.Errorf("%d of %d stacks are whole\n%s%s", whole, len(stacks), out, said)
	}
}

// TestLengthsOfStacks: two walks whose numbers of frames are compared exceeded what the verifier looks at, for it
// followed the second walk once for each number of the first.
func TestLengthsOfStacks(t *testing.T) {
	pid := startPython(t)
	const text = `config = { unstable_dw_ustack = enable }
profile:hz:499 /pid == $1/ { @[len(ustack) == len(dw_ustack), len(ustack(3)), len(ustack(60)) == len(ustack(100))] = count(); @n++; if (@n == 100) { exit(); } }
end { clear(@n); }`
	out, said := ran(t, text, &script.Options{Params: []string{pid}}, &script.RunOptions{})
	if out = strings.TrimSpace(out); !strings.HasPrefix(out, "@[true, 3, true]: ") || strings.Contains(out, "\n") {
		t.Errorf("it printed %s\n%s", out, said)
	}
}

// writer is called with what is written.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
