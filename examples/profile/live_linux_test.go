package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/stack/profile"
)

// self is a command that runs the tool in a process of its own.
func self(t testing.TB, args ...string) *testenv.Cmd {
	cmd := testenv.Command(t, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "PROFILE_MAIN=1")
	return cmd
}

// spinSink keeps the compiler from emptying spin.
var spinSink uint64

// Under the race detector an instrumented spin would be in its C code instead.
//
//go:noinline
//go:norace
func spin() {
	for {
		spinSink++
	}
}

// A shell that loops and a Go function that spins: the folded stacks must
// give nearly all samples of each to where they are, and the sum must be what
// the clock says.
func TestAttribution(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.CPUs(2))
	shellName := ""
	if _, err := os.Stat("/bin/sh"); err == nil { // a guest has none
		shell := testenv.Command(t, "/bin/sh", "-c", "while :; do :; done")
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { shell.Process.Kill(); shell.Wait() }()
		shellName = commOf(t, shell.Process.Pid)
	}
	// Without preemption, which costs a tenth of the time under emulation: that
	// is then truly spent elsewhere.
	spinner := startSpin(t, "GODEBUG=asyncpreemptoff=1")

	folded, note := sampleAll(t)
	testName := commOf(t, spinner.Process.Pid)
	var sh, shIn, spins, spinIn int64
	var others []string
	for s := range folded.All() {
		switch s.Frames[0] {
		case shellName:
			sh += s.Count
			if len(s.Frames) > 1 { // a stripped shell: any frame of its own
				shIn += s.Count
			}
		case testName:
			if slices.Contains(s.Frames, "runtime.sysmon") {
				continue // Go's monitor, a thread of its own that takes what share the machine's load gives it
			}
			spins += s.Count
			if strings.Contains(strings.Join(s.Frames, ";")+";", ".spin;") {
				spinIn += s.Count
			} else {
				others = append(others, fmt.Sprint(s.Count, " x ", strings.Join(s.Frames, ";")))
			}
		}
	}
	// 95 %, and two more while the shell starts, which counts on a busy machine.
	if spins == 0 || spins-spinIn > 2+spins/20 {
		t.Errorf("%d of %d samples of the Go program are in spin, want 95 %%; the others:\n%s", spinIn, spins, strings.Join(others, "\n"))
	}
	if shellName != "" && (sh == 0 || sh-shIn > 2+sh/20) {
		t.Errorf("%d of %d samples of the shell have a stack, want 95 %%", shIn, sh)
	}
	t.Logf("shell %d/%d, spin %d/%d; %s", shIn, sh, spinIn, spins, note)
}

// sampleAll runs the tool for three seconds with idle CPUs counted, and checks
// the sum against the clock: at most 99 samples a second and CPU while the tool ran.
// The timer's ticks that are late are left out (hrtimer_forward in perf_swevent_hrtimer,
// kernel/events/core.c), and the kernel does not count them: it is only required that they
// are fewer than half.
func sampleAll(t *testing.T) (folded *profile.Folded, note string) {
	t.Helper()
	const seconds = 3
	perSecond := 99 * float64(runtime.NumCPU())
	var out, errs bytes.Buffer
	begin := time.Now()
	cmd := self(t, "-d", fmt.Sprint(seconds), "-f", "-idle")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	folded, err := profile.ParseFolded(&out)
	if err != nil {
		t.Fatal(err)
	}
	total := float64(folded.Total())
	least, most := seconds*perSecond/2, (time.Since(begin).Seconds()+0.01)*perSecond
	if total < least || total > most {
		t.Errorf("%.0f samples, want %.0f to %.0f", total, least, most)
	}
	return folded, errs.String()
}

func commOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// What a run prints and what the replay of its recording prints are the same
// bytes.
func TestRecordReplay(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	dir := filepath.Join(t.TempDir(), "rec")
	files := t.TempDir()
	outputs := func(kind string, more ...string) map[string]string {
		svg, pb := filepath.Join(files, kind+".svg"), filepath.Join(files, kind+".pb")
		var out bytes.Buffer
		args := append([]string{"-f", "-svg", svg, "-pprof", pb}, more...)
		cmd := self(t, args...)
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		m := map[string]string{"folded": out.String()}
		for name, file := range map[string]string{"svg": svg, "pprof": pb} {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m[name] = string(b)
		}
		return m
	}
	startSpin(t)
	live := outputs("live", "-d", "300ms", "-F", "999", "-record", dir)
	again := outputs("replay", "-replay", dir)
	for name := range live {
		if live[name] != again[name] {
			t.Errorf("%s: the replay differs from the live run", name)
		}
	}
	if !strings.Contains(live["folded"], ";") {
		t.Errorf("nothing was sampled: %q", live["folded"])
	}
	// A recording is never overwritten.
	if err := run(t.Context(), []string{"-d", "10ms", "-record", dir}, tool.NewOutput(io.Discard)); err == nil {
		t.Error("-record into a directory that is not empty: no error")
	}
}

// TestRecordedTimes: a process executes two programs in turn that have another function at the same
// address. Each sample has the function of its program, live and when replayed.
func TestRecordedTimes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("gcc"))
	dir := t.TempDir()
	source := filepath.Join(dir, "turn.c")
	if err := os.WriteFile(source, []byte(turnC), 0o644); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "turn_a"), filepath.Join(dir, "turn_b")
	for exe, fn := range map[string]string{first: "spin_a", second: "spin_b"} {
		cmd := testenv.Command(t, "gcc", "-O1", "-static", "-no-pie", "-DFN="+fn, "-o", exe, source)
		if out, err := cmd.CombinedOutput(); err != nil {
			testenv.Need(t, testenv.Got("gcc -static", fmt.Errorf("%w: %s", err, out), "cannot find -lc"))
			t.Fatalf("%v: %s", err, out)
		}
	}
	rec := filepath.Join(dir, "rec")
	cmd := self(t, "-U", "-f", "-F", "999", "-d", "1m", "-record", rec)
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := errs.Read(make([]byte, 1)); err != nil { // it says that it samples
		t.Fatal(err)
	}
	go io.Copy(io.Discard, errs)
	err = testenv.Command(t, first, "20", second, first).Run()
	if err := errors.Join(err, cmd.Process.Signal(os.Interrupt)); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	live := out.String()
	for fn, other := range map[string]string{"a": "b", "b": "a"} {
		right := regexp.MustCompile(`(?m)^turn_` + fn + `;.*;spin_` + fn + ` \d+$`)
		if wrong := regexp.MustCompile(`(?m)^turn_` + fn + `;.*spin_` + other + `.*$`); !right.MatchString(live) || wrong.MatchString(live) {
			t.Errorf("turn_%s: %q, %q in\n%s", fn, right.FindString(live), wrong.FindString(live), live)
		}
	}
	var again bytes.Buffer
	if err := run(t.Context(), []string{"-U", "-f", "-replay", rec}, tool.NewOutput(&again)); err != nil || again.String() != live {
		t.Errorf("%v: the replay differs:\n%s\nfrom\n%s", err, again.String(), live)
	}
}

// turnC works in FN for 50 ms and executes the program in its second argument, as often as the first says.
const turnC = `
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int64_t ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
__attribute__((noinline)) uint64_t FN(int64_t until) {
	uint64_t x = 1;
	do
		for (int i = 0; i < 1000000; i++) x = x * 31 + i;
	while (ms() < until);
	return x;
}
int main(int c, char **v) {
	char left[16];
	int more = atoi(v[1]) - 1;
	FN(ms() + 50);
	if (more == 0) return 0;
	sprintf(left, "%d", more);
	execl(v[2], v[0], left, v[3], v[2], (char *)0);
	return 1;
}
`

// A short-lived process has names, although it is gone when they are looked up.
func TestExitedProcess(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Perf)
	var out, errs bytes.Buffer
	cmd := self(t, "-d", "4s", "-F", "999", "-f")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	child := startSpin(t)
	// Long enough for a slow machine to notice it, and over before the end.
	time.Sleep(2 * time.Second)
	child.Process.Kill()
	child.Wait()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	if !strings.Contains(out.String(), ".spin ") && !strings.Contains(out.String(), ".spin;") {
		t.Errorf("no frame spin of the process that ended; %s", errs.String())
	}
}

// startSpin starts a process that spins until the test ends, and returns when
// it does.
func startSpin(t *testing.T, env ...string) *testenv.Cmd {
	t.Helper()
	exe, err := os.Executable() // its name tells it from the tool's, "exe"
	if err != nil {
		exe = os.Args[0]
	}
	cmd := testenv.Command(t, exe, "-test.run=^TestSpinChild$")
	cmd.Env = append(append(os.Environ(), "PROFILE_SPIN=1"), env...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal("the process that spins: ", err)
	}
	return cmd
}

// TestSpinChild is what startSpin runs.
func TestSpinChild(t *testing.T) {
	if os.Getenv("PROFILE_SPIN") == "1" {
		fmt.Println("spinning")
		spin()
	}
}

// Killed in mid-run, the tool leaves nothing in the kernel.
func TestKillLeavesNothing(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	cmd := self(t, "-d", "1m", "-f")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stderr.Read(make([]byte, 1)); err != nil { // the start line
		t.Fatal(err)
	}
	owned := testenv.ObjectsOf(cmd.Process.Pid)
	if owned.Len() == 0 {
		t.Error("the running tool holds no BPF object: the test looks in the wrong place")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	owned.WaitGone(t)
}

// Ctrl-C ends early and still prints the result.
func TestInterrupt(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	cmd := self(t, "-d", "1m", "-idle")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // the start line
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	cmd.Process.Signal(os.Interrupt)
	out, err := io.ReadAll(stdout)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("\nsamples ")) {
		t.Errorf("no summary after Ctrl-C: %q", out)
	}
}

// Without privileges one line names what is missing and the ways on.
func TestUnprivileged(t *testing.T) {
	testenv.Need(t, testenv.Root)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Where the other user can reach it: a test binary's directory is private.
	tool := filepath.Join("/tmp", fmt.Sprintf("profile-test-%d", os.Getpid()))
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool, b, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(tool)
	cmd := testenv.Command(t, tool, "-d", "1s")
	cmd.Env = []string{"PROFILE_MAIN=1"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit %v, want status 1", err)
	}
	for _, want := range []string{"CAP_BPF", "sudo profile", "-replay demo"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if strings.Count(string(out), "\n") != 1 {
		t.Errorf("not one line: %q", out)
	}
}

// Sampling needs no BTF: a kernel without it, seen through a mount namespace in
// which it is hidden, is sampled like any other.
func TestWithoutBTF(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Perf)
	if !testenv.OwnMounts(t) {
		return
	}
	if err := syscall.Mount("tmpfs", "/sys/kernel/btf", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	startSpin(t)
	out, err := self(t, "-d", "500ms", "-f").Output()
	if err != nil || !strings.Contains(string(out), ".spin ") {
		t.Errorf("%v, stacks %q", err, out)
	}
}

// A recording that the disk has no room for is an error.
func TestRecordFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Perf)
	if !testenv.OwnMounts(t) {
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, 0)
	err := run(t.Context(), []string{"-d", "200ms", "-F", "999", "-idle", "-record", filepath.Join(dir, "rec")}, tool.NewOutput(io.Discard))
	if err == nil || !strings.Contains(err.Error(), "no space left") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that says the disk is full", err)
	}
}
