// Profile measures examples/profile next to perf record and bpftrace on this machine, in one
// run: the cost of a sample, the time from a start until sampling begins, and the tool's peak
// memory.
//
//	go -C internal/bench run ./profile [-rounds 5] [-procs 2000] [-before FILE]     (as root)
//	go -C internal/bench run ./profile -stacks
//	go -C internal/bench run ./profile -algorithms 2
//	go -C internal/bench run ./profile -continuous 1m
//	go -C internal/bench run ./profile -young 5 [-before FILE] [-callers]
//
// With -stacks it prints instead how many samples of stripped programs reach the program's
// start, for each of the three at the same time; with -algorithms, how many samples of
// openssl speed do in borescope, for each of 23 algorithms. With -continuous it measures instead a
// service that profiles all processes all the time, after its first minute and for so long. With -young
// it counts the whole stacks of processes that live for milliseconds, or map code while they run; with
// -callers it looks for the calls in them in a recording of perf's of the same time.
//
// The cost is the loss of a pinned, busy program: the difference between its throughput alone
// and under each tracer, divided by the number of samples. Rounds are interleaved and each
// tracer's best counts, so that other load on the machine has little effect. A peer that is
// not installed is left out, with a note.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/bench/peer"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
)

// freq is high, so that the cost is well above the noise. Under load the kernel may lower its
// limit, kernel.perf_event_max_sample_rate.
const freq = 4999

const (
	busyCPU = 1
	busyFor = 2 * time.Second
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "busy":
			busy()
			return
		case "pulse":
			pulse()
			return
		case "continuous", "frame-pointers":
			work := continuous
			if os.Args[1] == "frame-pointers" {
				work = framePointers
			}
			if err := work(); err != nil {
				fmt.Fprintln(os.Stderr, "bench profile:", err)
				os.Exit(1)
			}
			return
		}
	}
	rounds := flag.Int("rounds", 5, "interleaved rounds")
	procs := flag.Int("procs", 2000, "processes alive while peak memory is taken; 0 leaves that out")
	stacks := flag.Bool("stacks", false, "count the samples that reach the program's start instead")
	each := flag.Int("algorithms", 0,
		"do so for each of OpenSSL's algorithms, for so many seconds, by borescope alone")
	before := flag.String("before", "", "measure this build of examples/profile, too: a `file`")
	all := flag.Duration("continuous", 0, "measure continuous profiling for so long")
	fresh := flag.Int("young", 0, "count the whole stacks of processes that live for milliseconds, for so many seconds each")
	only := flag.String("only", "", "with -young: only work whose `name` has this in it")
	perf := flag.Bool("perf", true, "with -young: perf record beside it")
	calls := flag.Bool("callers", false, "with -young: how many of the calls in whole stacks perf script sees, too")
	warm := flag.Duration("warm", time.Minute, "how long it has been running then")
	flag.Parse()
	measure := func() error { return run(*rounds, *procs, *before) }
	switch {
	case *all > 0:
		measure = func() error { return continuously(*procs, *warm, *all) }
	case *each > 0:
		measure = func() error { return wholeAlgorithms(*each) }
	case *fresh > 0:
		measure = func() error { return young(*fresh, *before, *only, *perf, *calls) }
	case *stacks:
		measure = wholeStacks
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "bench profile:", err)
		os.Exit(1)
	}
}

// tracer is a command that samples all CPUs with kernel and user stacks.
type tracer struct {
	name string
	args []string

	best   float64   // busy's iterations per second
	rates  []float64 // of each round
	start  []time.Duration
	maxRSS int64 // KiB
}

func run(rounds, procs int, before string) error {
	dir, err := os.MkdirTemp("", "bench-profile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, err := peer.BuildProfile(dir)
	if err != nil {
		return err
	}
	hz := strconv.Itoa(freq)
	tracers := []*tracer{
		{name: "untraced"},
		{name: "borescope profile", args: []string{ours, "-F", hz, "-d", "1h", "-f"}},
		{name: "without the walker", args: []string{"/proc/self/exe", "frame-pointers"}},
		{name: "the build before", args: []string{before, "-F", hz, "-d", "1h", "-f"}},
		{name: "perf record -a -g", args: []string{
			"perf", "record", "-q", "-F", hz, "-a", "-g", "-o",
			filepath.Join(dir, "perf.data"),
		}},
		{
			name: "bpftrace profile",
			args: []string{"bpftrace", "-e", "profile:hz:" + hz + " { @[kstack, ustack] = count(); }"},
		},
	}
	tracers = slices.DeleteFunc(tracers, func(t *tracer) bool {
		if len(t.args) == 0 {
			return false
		}
		_, err := exec.LookPath(t.args[0])
		if err != nil && t.args[0] != "" {
			fmt.Printf("left out: %s is not installed\n", t.args[0])
		}
		return err != nil
	})
	for i := range rounds {
		for _, t := range tracers {
			if err := t.round(); err != nil {
				return fmt.Errorf("%s, round %d: %w", t.name, i+1, err)
			}
		}
	}
	report(tracers)
	if procs > 0 {
		return crowd(ours, procs)
	}
	return nil
}

// crowd prints the peak memory of a run on a machine with n processes, each of which is
// sampled now and then.
func crowd(tool string, n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for range n {
		cmd := exec.Command(self, "pulse")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
	}
	time.Sleep(3 * time.Second) // until they have started
	cmd := exec.Command(tool, "-d", "10s")
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	fmt.Printf("%d processes alive: peak %.1f MiB; %s\n", n, float64(peak)/1024, lines[len(lines)-1])
	return nil
}

// pulse uses the CPU for some milliseconds every few seconds.
func pulse() {
	for {
		for begin := time.Now(); time.Since(begin) < 3*time.Millisecond; {
			sink++
		}
		time.Sleep(4 * time.Second)
	}
}

// round runs the busy program once under the tracer.
func (t *tracer) round() error {
	var cmd *exec.Cmd
	ended := make(chan error, 1)
	if len(t.args) > 0 {
		cmd = exec.Command(t.args[0], t.args[1:]...)
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { ended <- cmd.Wait() }()
		if err := attached(cmd.Process.Pid); err != nil {
			cmd.Process.Kill()
			<-ended
			return err
		}
		t.start = append(t.start, time.Since(begin))
		time.Sleep(200 * time.Millisecond)
	}
	rate, err := busyRate()
	if cmd != nil {
		err = errors.Join(err, peer.Interrupt(cmd, ended))
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			t.maxRSS = max(t.maxRSS, u.Maxrss)
		}
	}
	t.best, t.rates = max(t.best, rate), append(t.rates, rate)
	return err
}

// attached waits until the process holds a perf event, or the link of one, for every CPU.
// This sign of readiness is the same for all tracers, and seen from outside.
func attached(pid int) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(100 * time.Microsecond) {
		fds, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		n := 0
		for _, fd := range fds {
			if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil &&
				(strings.Contains(to, "perf_event") || strings.Contains(to, "bpf_link")) {
				n++
			}
		}
		if n >= runtime.NumCPU() {
			return nil
		}
	}
	return fmt.Errorf("no perf events after 10 s")
}

func busyRate() (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	out, err := exec.Command(self, "busy").Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(bytes.TrimSpace(out)), 64)
}

// busy spins 30 calls deep on one CPU and prints its iterations per second.
func busy() {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(busyCPU)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	begin := time.Now()
	n := descend(30, begin.Add(busyFor))
	fmt.Println(float64(n) / time.Since(begin).Seconds())
}

//go:noinline
func descend(depth int, until time.Time) int {
	if depth > 0 {
		return descend(depth-1, until) + depth - depth
	}
	n := 0
	for time.Now().Before(until) {
		for i := range 100_000 {
			sink += i
		}
		n++
	}
	return n
}

var sink int

func report(tracers []*tracer) {
	alone := tracers[0]
	fmt.Printf("%-20s %9s %11s %11s %14s %10s\n", "tracer", "loss", "us, best", "us, median",
		"start ms (min)", "peak MiB")
	for _, t := range tracers {
		loss := 1 - t.best/alone.best
		var each []float64
		for i, rate := range t.rates {
			each = append(each, 1-rate/alone.rates[i])
		}
		slices.Sort(each)
		fmt.Printf("%-20s %8.2f%% %11.2f %11.2f", t.name, 100*loss, loss/freq*1e6,
			(each[(len(each)-1)/2]+each[len(each)/2])/2/freq*1e6)
		if len(t.start) > 0 {
			fmt.Printf(" %14.1f %10.1f", slices.Min(t.start).Seconds()*1e3, float64(t.maxRSS)/1024)
		}
		fmt.Println()
	}
}

// framePointers samples everything without the walker until it is interrupted.
func framePointers() error {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: freq}}, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	<-interrupted
	return nil
}
