// Command btstart runs scripts with bt and with bpftrace in turn, and prints how long each takes
// from its start until everything is attached, the most memory that each uses, and what its programs
// cost: the nanoseconds of a run that the kernel counts, and what an event of the work that the script
// sees takes longer than without a tracer. Scripts are those that both languages have: bpftrace of
// Debian bookworm is 0.17.
//
//	go -C internal/bench run ./btstart [-n 9] [-run PATTERN]
//
// As root, with tracefs mounted.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func main() {
	n := flag.Int("n", 9, "how often each is run")
	only := flag.String("run", "", "run only the scripts whose names match this `pattern`")
	bt := flag.String("bt", "", "the `program` bt; without it, it is built")
	kind := flag.String("work", "", "for its own use: do this")
	flag.Parse()
	var err error
	if *kind != "" {
		err = work(*kind, *n)
	} else {
		err = compare(*bt, *only, *n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "btstart:", err)
		os.Exit(1)
	}
}

// compare runs each script n times with each tracer.
func compare(bt, only string, n int) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if bt == "" {
		dir, err := os.MkdirTemp("", "btstart")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if bt, err = build(dir); err != nil {
			return err
		}
	}
	fmt.Printf("%-18s %26s  %26s  %26s  %26s\n", "", "start, ms", "memory, MiB", "ns a run", "ns an event")
	fmt.Printf("%-18s%s\n", "", strings.Repeat("      bt bpftrace   ratio  ", 4))
	for _, s := range scripts(self) {
		if !match.MatchString(s.name) {
			continue
		}
		r, err := s.compare(bt, self, n)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("%-18s", s.name)
		for _, of := range []func(one) float64{
			func(o one) float64 { return o.ms },
			func(o one) float64 { return o.mib },
			func(o one) float64 { return o.nsRun },
			func(o one) float64 { return o.nsEvent },
		} {
			ours, theirs := median(r[0], of), median(r[1], of)
			if ours == 0 && theirs == 0 {
				continue // not measured: the last one
			}
			fmt.Printf("  %7.1f %8.1f %7.2f  ", ours, theirs, ours/theirs)
		}
		fmt.Println()
	}
	return nil
}

// build builds bt in a directory.
func build(dir string) (string, error) {
	bt := filepath.Join(dir, "bt")
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bt, "./examples/bt")
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bt, nil
}

// one is one round of a tracer.
type one struct {
	ms, mib float64 // until everything is attached, and the most memory
	nsRun   float64 // of its programs
	nsEvent float64 // what an event of the work takes longer
}

func median(runs []one, of func(one) float64) float64 {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b one) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[len(sorted)/2])
}

// compare returns the rounds of bt and those of bpftrace.
func (s script) compare(bt, self string, n int) (rounds [2][]one, err error) {
	command := []string{self, "-work", s.work, "-n", strconv.Itoa(s.n)}
	for range n {
		alone, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return rounds, err
		}
		untraced, _, err := parseWork(string(alone))
		if err != nil {
			return rounds, err
		}
		for i, tracer := range []string{bt, "bpftrace"} {
			r, err := started(tracer, s.text)
			if err == nil {
				err = s.cost(tracer, strings.Join(command, " "), untraced, &r)
			}
			if err != nil {
				return rounds, fmt.Errorf("%s: %w", tracer, err)
			}
			rounds[i] = append(rounds[i], r)
		}
	}
	return rounds, nil
}

// started measures a run until a command that it starts has ended. The command prints the time at which
// it runs: everything is attached by then.
func started(tracer, text string) (one, error) {
	date, err := exec.LookPath("date")
	if err != nil {
		return one{}, err
	}
	began := time.Now()
	printed, usage, err := traced(tracer, date+" +%s%N", text)
	if err != nil {
		return one{}, err
	}
	for line := range strings.Lines(printed) {
		if ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && ns > began.UnixNano() {
			return one{ms: float64(ns-began.UnixNano()) / 1e6, mib: float64(usage.Maxrss) / 1024}, nil
		}
	}
	return one{}, errors.New("the command did not run")
}

// cost measures the script's programs in r, while a command works that takes the time untraced without
// them: once while the kernel counts, and once while it does not, for counting takes time, too.
func (s script) cost(tracer, command string, untraced time.Duration, r *one) error {
	var flags []string
	if s.stacks && tracer != "bpftrace" {
		flags = append(flags, "-frame-pointers")
	}
	printed, _, err := traced(tracer, command, s.text, flags...)
	if err != nil {
		return err
	}
	took, _, err := parseWork(printed)
	if err != nil {
		return err
	}
	if !timed[s.work] {
		r.nsEvent = float64(took-untraced) / float64(s.n)
	}

	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return err
	}
	defer counting.Close()
	if printed, _, err = traced(tracer, command, s.text, flags...); err != nil {
		return err
	}
	_, spent, err := parseWork(printed)
	if err == nil && spent.Runs == 0 {
		err = errors.New("its programs did not run")
	}
	r.nsRun = float64(spent.Time) / float64(spent.Runs)
	return err
}

// traced runs a script until the command that it starts has ended.
func traced(tracer, command, text string, flags ...string) (string, *syscall.Rusage, error) {
	c := exec.Command(tracer, append(flags, "-q", "-c", command, "-e", text)...)
	var printed, said strings.Builder
	c.Stdout, c.Stderr = &printed, &said
	if err := c.Run(); err != nil {
		return "", nil, fmt.Errorf("%w\n%s", err, &said)
	}
	return printed.String(), c.ProcessState.SysUsage().(*syscall.Rusage), nil
}
