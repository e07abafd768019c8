// Tools measures the tools of examples next to BCC's and bpftrace's of the same
// purpose: how long a start takes until events are seen, whether all count the
// same, what an event costs, and the peak memory.
//
//	go -C internal/bench run ./tools [-rounds 3]      (as root)
//
// Every tool is run in the same way. A load of this command causes an event
// every millisecond or so and writes down when; the first that the tool counted
// tells when it was ready. Then comes a known number of other events, of which
// the quickest batches tell the cost. A peer that is not installed, or does not
// run on this kernel, is left out and said so. BCC needs kernel headers: where
// they are not in place, BCC_KERNEL_SOURCE names them.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tool is a command that counts or prints the events of a load.
type tool struct {
	name string
	args []string
	// seen is how often the output has an event: the pulse or the burst's.
	seen func(out, event string) int

	best run
	gone error
}

// run is what one run of a tool showed, or the best of several.
type run struct {
	start   time.Duration // until the first event that was seen
	counted int           // of the burst
	event   time.Duration // the burst's quickest batches, each event
	peak    int64         // KiB resident
}

func main() {
	rounds := flag.Int("rounds", 3, "interleaved `rounds`; the best of each tool counts")
	flag.Parse()
	var err error
	if flag.NArg() == 2 && flag.Arg(0) == "load" {
		err = serveLoad(flag.Arg(1))
	} else {
		err = compare(*rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench tools:", err)
		os.Exit(1)
	}
}

func compare(rounds int) error {
	dir, err := os.MkdirTemp("", "bench-tools")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Built, because what go run makes has no symbols, and not all tools can do
	// without.
	loads := filepath.Join(dir, "loads")
	if err := build(loads, "github.com/borescope/borescope/internal/bench/tools"); err != nil {
		return err
	}
	for _, c := range comparisons(dir, loads) {
		if err := build(filepath.Join(dir, c.name), "github.com/borescope/borescope/examples/"+c.name); err != nil {
			return err
		}
		if err := c.measure(rounds); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.print()
	}
	return nil
}

func build(to, pkg string) error {
	if out, err := exec.Command("go", "build", "-o", to, pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func (c *comparison) measure(rounds int) error {
	for range rounds {
		quiet, err := startLoad(c.loads, c.name)
		if err != nil {
			return err
		}
		alone, err := quiet.burst()
		if err = errors.Join(err, quiet.end()); err != nil {
			return err
		}
		c.alone = least(c.alone, alone)
		for _, t := range c.tools {
			if t.gone == nil {
				c.round(t)
			}
		}
	}
	return nil
}

// round runs a tool once. One that fails is not run again.
func (c *comparison) round(t *tool) {
	r, err := c.once(t)
	if err != nil {
		t.gone = err
		return
	}
	b := &t.best
	b.start, b.event = least(b.start, r.start), least(b.event, r.event)
	b.peak = max(b.peak, r.peak)
	// The worst of the counts, so that what was missed once is seen.
	if b.counted == 0 || abs(r.counted-c.burst()) > abs(b.counted-c.burst()) {
		b.counted = r.counted
	}
}

// patience is how long a tool may take until it is attached.
const patience = 40 * time.Second

func (c *comparison) once(t *tool) (r run, err error) {
	if _, err := exec.LookPath(t.args[0]); err != nil {
		return r, err
	}
	l, err := startLoad(c.loads, c.name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	if err := l.pulse(); err != nil {
		return r, err
	}
	cmd := exec.Command(t.args[0], t.args[1:]...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := attached(cmd.Process.Pid, ended); err != nil {
		cmd.Process.Kill()
		return r, fmt.Errorf("%w: %s", err, lastLine(stderr.String()))
	}
	time.Sleep(time.Second) // the rest of its probes
	pulses, err := l.stop()
	if err == nil {
		r.event, err = l.burst()
	}
	time.Sleep(500 * time.Millisecond) // it reads its buffers
	cmd.Process.Signal(os.Interrupt)
	<-ended
	if err != nil {
		return r, err
	}
	r.peak = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	r.counted = t.seen(out.String(), c.burstEvent)
	n := t.seen(out.String(), c.pulseEvent)
	if n == 0 || n > len(pulses) {
		return r, fmt.Errorf("saw %d of %d events: %s", n, len(pulses), lastLine(stderr.String()))
	}
	r.start = pulses[len(pulses)-n].Sub(begin)
	return r, nil
}

// attached waits until the process holds a perf event or a link.
func attached(pid int, ended <-chan error) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			return fmt.Errorf("ended at once: %v", err)
		default:
		}
		fds, _ := os.ReadDir(dir)
		for _, fd := range fds {
			to, _ := os.Readlink(filepath.Join(dir, fd.Name()))
			if strings.Contains(to, "perf_event") || strings.Contains(to, "bpf_link") || strings.Contains(to, "bpf-raw-tracepoint") {
				return nil
			}
		}
	}
	return fmt.Errorf("not attached after %v", patience)
}

func (c *comparison) print() {
	fmt.Printf("\n%s: %s\n", c.name, c.what)
	fmt.Printf("%-12s %12s %16s %12s %10s %10s\n", "", "start ms", "counted", "added ns", "peak MiB", "start x")
	ours := c.tools[0].best
	for _, t := range c.tools {
		if t.gone != nil {
			fmt.Printf("%-12s left out: %v\n", t.name, t.gone)
			continue
		}
		b := t.best
		added := "-" // starting a program takes too long, and never the same
		if kinds[c.name].batch > 1 {
			added = strconv.FormatInt((b.event - c.alone).Nanoseconds(), 10)
		}
		fmt.Printf("%-12s %12.1f %9d/%6d %12s %10.1f %10.1f\n", t.name, b.start.Seconds()*1e3, b.counted, c.burst(),
			added, float64(b.peak)/1024, b.start.Seconds()/ours.start.Seconds())
	}
}

// least is the smaller one; 0 stands for none yet.
func least[T cmp.Ordered](a, b T) T {
	var none T
	if a == none {
		return b
	}
	return min(a, b)
}

func abs(n int) int { return max(n, -n) }

func lastLine(s string) string {
	last := "it said nothing"
	for lines := bufio.NewScanner(strings.NewReader(s)); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.Contains(line, "RLIMIT_MEMLOCK") {
			last = line
		}
	}
	return last
}
