package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/collect/collecthttp"
)

// continuousHz is the rate of continuous profiling.
const continuousHz = 49

// loops are programs that run for ever, as Debian ships them: without frame pointers.
var loops = [][]string{
	{"/bin/sh", "-c", "f() { if [ $1 -gt 0 ]; then f $(($1-1)); else while :; do :; done; fi; }; f 9"},
	{"perl", "-e", "sub f { my $n = shift; if ($n) { f($n-1) } else { while (1) { $x = join ',', sort 1..9 } } } f(9)"},
	{"bash", "-c", "f() { if (( $1 )); then f $(( $1 - 1 )); else while :; do x=${x:0:9}a; done; fi; }; f 9"},
	{"awk", "BEGIN { while (1) x = x % 7 + length(sprintf(\"%d\", x)) }"},
}

// state is what continuous says of itself.
type state struct {
	CPU     time.Duration // used by the process
	BPF     time.Duration // in its programs
	Samples uint64
	Lost    uint64
	RSS     int64 // bytes
}

// continuously measures a process that profiles everything, all the time, on a machine with n
// processes, of which one in ten runs: what it takes of each CPU after its first minute, and its
// memory.
func continuously(n int, warm, measured time.Duration) error {
	stop, err := many(n)
	defer stop()
	if err != nil {
		return err
	}
	// The kernel measures the programs only where it is asked to.
	const stats = "/proc/sys/kernel/bpf_stats_enabled"
	was, err := os.ReadFile(stats)
	if err != nil {
		return err
	}
	if err := os.WriteFile(stats, []byte("1"), 0o644); err != nil {
		return err
	}
	defer os.WriteFile(stats, was, 0o644)
	cmd := exec.Command("/proc/self/exe", "continuous")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the parent of whom Pdeathsig is
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	said := json.NewDecoder(out)
	cpus := time.Duration(runtime.NumCPU())
	fmt.Printf("%d processes, %d of them run, %d CPUs, %d Hz\n", n, n/10, cpus, continuousHz)
	fmt.Printf("%8s %14s %14s %12s %8s %8s\n", "seconds", "own CPU", "in programs", "ns a sample",
		"lost", "MiB")
	var before state
	begin := time.Now()
	for last := time.Duration(0); last < warm+measured; {
		var now state
		if err := said.Decode(&now); err != nil {
			return err
		}
		at := time.Since(begin)
		if at-last < min(warm, measured)/2 && last != 0 || at < time.Second {
			continue
		}
		took := (at - last) * cpus
		samples := now.Samples - before.Samples
		fmt.Printf("%8.0f %13.3f%% %13.3f%% %12.0f %8d %8.1f\n", at.Seconds(),
			100*float64(now.CPU-before.CPU)/float64(took), 100*float64(now.BPF-before.BPF)/float64(took),
			float64(now.BPF-before.BPF)/float64(max(1, samples)), now.Lost-before.Lost, float64(now.RSS)/(1<<20))
		before, last = now, at
	}
	return nil
}

// many starts n processes, of which one in ten runs and the others sleep. stop ends them.
func many(n int) (stop func(), err error) {
	var cmds []*exec.Cmd
	stop = func() {
		for _, c := range cmds {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	have := slices.DeleteFunc(slices.Clone(loops), func(argv []string) bool {
		_, err := exec.LookPath(argv[0])
		return err != nil
	})
	runtime.LockOSThread() // the parent of whom Pdeathsig is
	for i := range n {
		argv := []string{"sleep", "600"}
		if i%10 == 0 {
			argv = have[i/10%len(have)]
		}
		c := exec.Command(argv[0], argv[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return stop, err
		}
		cmds = append(cmds, c)
		if i%10 == 0 { // others on the machine come first
			if err := unix.Setpriority(unix.PRIO_PROCESS, c.Process.Pid, 10); err != nil {
				return stop, err
			}
		}
	}
	return stop, nil
}

// continuous is the process that profiles: it prints its state once a second.
func continuous() error {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: continuousHz}}, &collect.Options{Windows: true})
	if err != nil {
		return err
	}
	p, err := collect.NewProfiler(c, nil)
	if err != nil {
		return err
	}
	defer p.Close()
	h := collecthttp.New(p, &collecthttp.Options{Others: true})
	defer h.Close()
	for out := json.NewEncoder(os.Stdout); ; time.Sleep(time.Second) {
		var s state
		s, err := describe(c)
		if err != nil {
			return err
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
}

func describe(c *collect.Collector) (s state, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return s, err
	}
	s.CPU = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	stats, err := c.Stats()
	if err != nil {
		return s, err
	}
	s.Samples, s.Lost = stats.Samples, stats.Lost()+stats.Missed
	if s.BPF, err = inPrograms(); err != nil {
		return s, err
	}
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return s, err
	}
	f := strings.Fields(string(b))
	pages, err := strconv.ParseInt(f[1], 10, 64)
	s.RSS = pages * int64(os.Getpagesize())
	return s, err
}

// inPrograms is the time that the kernel has measured in this process's programs.
func inPrograms() (total time.Duration, err error) {
	links, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		return 0, err
	}
	seen := map[int]time.Duration{}
	for _, link := range links {
		b, err := os.ReadFile(link)
		if errors.Is(err, os.ErrNotExist) {
			continue // closed meanwhile
		} else if err != nil {
			return 0, err
		}
		id, ns := 0, time.Duration(0)
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			switch key {
			case "prog_id":
				id = n
			case "run_time_ns":
				ns = time.Duration(n)
			}
		}
		if id != 0 && strings.Contains(string(b), "run_time_ns") {
			seen[id] = ns
		}
	}
	for _, ns := range seen {
		total += ns
	}
	return total, nil
}
