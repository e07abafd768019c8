// Attach measures how long it takes to attach one program to thousands of functions, and to
// detach it, with package probe and with bpftrace, on this machine in one run. PATTERN may be
// several patterns, separated by commas.
//
//	go -C internal/bench run ./attach [-rounds 3] [PATTERN]      (as root)
//
// The time of bpftrace is that from its start to its end, less that of a run which attaches
// nothing. Ours is the time from a fresh environment, which has to read the lists of
// functions again, to the end of Close. Rounds are interleaved, and the best of each counts.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
)

func main() {
	rounds := flag.Int("rounds", 3, "interleaved rounds")
	flag.Parse()
	pattern := flag.Arg(0)
	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "bench attach: at least one round")
		os.Exit(2)
	}
	if pattern == "" {
		pattern = "kprobe:a*,kprobe:d*,kprobe:e*,kprobe:h*" // bpftrace has no [adeh]
	}
	if err := run(pattern, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench attach:", err)
		os.Exit(1)
	}
}

func run(pattern string, rounds int) error {
	var ours times
	var peer bpftraceTimes
	peer.list(pattern)
	for range rounds {
		if err := ours.round(pattern); err != nil {
			return err
		}
		peer.round(pattern)
	}
	resolve, attach, detach := slices.Min(ours.resolve), slices.Min(ours.attach),
		slices.Min(ours.detach)
	fmt.Printf("%s: %d functions, %d for bpftrace\n", pattern, ours.sites, peer.sites)
	fmt.Printf("%-10s %8s resolved, %8s attached, %8s detached: %8s\n", "ours",
		tenths(resolve), tenths(attach), tenths(detach), tenths(resolve+attach+detach))
	if peer.err != nil {
		fmt.Printf("%-10s left out: %v\n", "bpftrace", peer.err)
		return nil
	}
	all, idle := slices.Min(peer.all), slices.Min(peer.idle)
	fmt.Printf("%-10s %8s altogether, %s of them without probes: %8s\n", "bpftrace", tenths(all),
		tenths(idle), tenths(all-idle))
	return nil
}

func tenths(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }

// times are the times that each step took, by round.
type times struct {
	resolve, attach, detach []time.Duration
	sites                   int
}

// round resolves, attaches and detaches. The time to load the one program is left out, as is
// that of bpftrace's compiler.
func (t *times) round(pattern string) error {
	target, err := probe.ParseTarget(pattern)
	if err != nil {
		return err
	}
	start := time.Now()
	env := probe.NewEnv(nil)
	plan, err := probe.Resolve(env, []probe.Target{target},
		&probe.Options{NoTypes: true, Missing: probe.MissingIgnore})
	if err != nil {
		return err
	}
	t.resolve = append(t.resolve, time.Since(start))
	progs := map[string]*ebpf.Program{}
	for i := range plan.Programs {
		spec := plan.ProgramSpec(i)
		spec.License = "GPL"
		spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, kernel.Idle(spec.Type)), asm.Return()}
		p, err := ebpf.NewProgram(spec)
		if err != nil {
			return err
		}
		defer p.Close()
		progs[spec.Name] = p
	}
	start = time.Now()
	l, err := plan.Attach(progs, &probe.AttachOptions{Env: env, Missing: probe.MissingIgnore})
	if err != nil {
		return err
	}
	t.attach, t.sites = append(t.attach, time.Since(start)), len(l.Sites())
	start = time.Now()
	err = l.Close()
	t.detach = append(t.detach, time.Since(start))
	return err
}

// bpftraceTimes are the times that bpftrace took, by round. It is not run again after an
// error, such as a probe of the pattern that it does not have.
type bpftraceTimes struct {
	all, idle []time.Duration
	sites     int
	err       error
}

// list counts the functions that match a pattern in bpftrace.
func (t *bpftraceTimes) list(pattern string) {
	for p := range strings.SplitSeq(pattern, ",") {
		out, err := exec.Command("bpftrace", "-l", p).Output()
		if err != nil {
			t.err = fmt.Errorf("bpftrace -l %s: %w", p, err)
			return
		}
		t.sites += strings.Count(string(out), "\n")
	}
	if t.sites == 0 {
		t.err = fmt.Errorf("it knows no function %s", pattern)
	}
}

func (t *bpftraceTimes) round(pattern string) {
	for _, run := range []struct {
		program string
		took    *[]time.Duration
	}{
		// The timer is attached last, so it fires when all probes are attached.
		{pattern + " { @ = 1; } interval:ms:1 { exit(); }", &t.all},
		{"interval:ms:1 { exit(); }", &t.idle},
	} {
		if t.err != nil {
			return
		}
		var d time.Duration
		if d, t.err = bpftrace(run.program); t.err == nil {
			*run.took = append(*run.took, d)
		}
	}
}

func bpftrace(program string) (time.Duration, error) {
	cmd := exec.Command("bpftrace", "-e", program)
	cmd.Env = append(os.Environ(), "BPFTRACE_MAX_PROBES=100000", "BPFTRACE_MISSING_PROBES=ignore")
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("bpftrace: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return time.Since(start), nil
}
