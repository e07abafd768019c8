// Command btstart runs scripts with bt and with bpftrace in turn, and prints how long each takes
// from its start until everything is attached, and the most memory that each uses. Scripts are those
// that both languages have: bpftrace of Debian bookworm is 0.17.
//
//	go -C internal/bench run ./btstart [-n 15]
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// scripts are what is compared.
var scripts = []struct{ name, text string }{
	{"count by comm", "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }"},
	{"opens", `tracepoint:syscalls:sys_enter_openat { @name[tid] = args->filename; }
tracepoint:syscalls:sys_exit_openat /@name[tid]/ { printf("%d %s %d %s\n", pid, comm, args->ret, str(@name[tid])); delete(@name[tid]); }`},
	{"profile of stacks", "profile:hz:99 { @[kstack, ustack, comm] = count(); }"},
	{"a timer", "interval:s:1 { printf(\"%d\\n\", nsecs); }"},
	{"the parent", "tracepoint:syscalls:sys_enter_execve { printf(\"%d %s\\n\", curtask->real_parent->tgid, comm); }"},
}

func main() {
	n := flag.Int("n", 15, "how often each is run")
	flag.Parse()
	if err := compare(*n); err != nil {
		fmt.Fprintln(os.Stderr, "btstart:", err)
		os.Exit(1)
	}
}

// one is one run.
type one struct {
	start time.Duration
	rss   int64 // KiB
}

func compare(n int) error {
	dir, err := os.MkdirTemp("", "btstart")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bt := filepath.Join(dir, "bt")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bt, "./examples/bt")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	// It prints the time at which it runs: everything is attached by then.
	date, err := exec.LookPath("date")
	if err != nil {
		return err
	}
	now := date + " +%s%N"
	for _, s := range scripts {
		var ours, theirs []one
		for range n {
			for _, run := range []struct {
				command string
				to      *[]one
			}{{bt, &ours}, {"bpftrace", &theirs}} {
				r, err := measure(run.command, now, s.text)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", run.command, s.name, err)
				}
				*run.to = append(*run.to, r)
			}
		}
		start := func(r one) int64 { return int64(r.start) }
		rss := func(r one) int64 { return r.rss }
		a, b := median(ours, start), median(theirs, start)
		c, d := median(ours, rss), median(theirs, rss)
		fmt.Printf("%-18s start %6.1f ms, bpftrace %6.1f (%.2f); memory %5.1f MiB, bpftrace %5.1f (%.2f)\n", s.name,
			float64(a)/1e6, float64(b)/1e6, float64(a)/float64(b), float64(c)/1024, float64(d)/1024, float64(c)/float64(d))
	}
	return nil
}

// measure runs a script until a command that it starts has ended.
func measure(command, now, text string) (one, error) {
	cmd := exec.Command(command, "-q", "-c", now, "-e", text)
	var printed, said strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return one{}, fmt.Errorf("%w\n%s", err, &said)
	}
	for line := range strings.Lines(printed.String()) {
		if ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && ns > began.UnixNano() {
			usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			return one{time.Unix(0, ns).Sub(began), usage.Maxrss}, nil
		}
	}
	return one{}, errors.New("the command did not run: " + said.String())
}

func median(runs []one, of func(one) int64) int64 {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b one) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[len(sorted)/2])
}
