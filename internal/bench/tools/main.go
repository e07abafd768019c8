// Tools measures the tools in examples next to BCC's and bpftrace's for the same purpose: the
// time from a start until events are seen, whether all count the same, the cost of an event,
// and the peak memory.
//
//	go -C internal/bench run ./tools                        (as root)
//	go -C internal/bench run ./tools -guest 5.10 tcpconnect biolatency
//	go -C internal/bench run ./tools -cost [-guest 6.12]
//
// Every tool is run in the same way. A load, which is this command too, causes an event every
// millisecond or so and records its time; the first one that the tool counted shows when it
// was ready. Then comes a known number of other events, of which the quickest batches show
// the cost. Then all tools run side by side on one more burst. The output has each tool's
// count of it, and the time for which each tool's programs ran, which the kernel counts then
// (as with the sysctl kernel.bpf_stats_enabled). A peer that is not installed, or does not
// run on this kernel, is left out, with a note. BCC needs kernel headers: if they are not in
// place, BCC_KERNEL_SOURCE is their directory.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/bench/peer"
)

// tool is a command that counts or prints the events of a load.
type tool struct {
	name string
	args []string
	// seen returns how often the output has an event: that of the pulse or the burst.
	seen func(out, event string) int

	best run
	gone error
}

// run is the result of one run of a tool, or the best of several.
type run struct {
	start   time.Duration // until the first event that was seen
	counted int           // of the burst
	event   time.Duration // the burst's quickest batches, each event
	peak    int64         // KiB resident
}

// settings holds the parsed command line.
type settings struct {
	rounds     int
	guest, bin string
	costs      bool
	names      []string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 3, "interleaved `rounds`; the best of each tool counts")
	flag.StringVar(&s.guest, "guest", "",
		"do it in a guest of this kernel `version`, with bpftrace for a peer")
	flag.StringVar(&s.bin, "bin", "", "the tools are in this `directory` already")
	flag.BoolVar(&s.costs, "cost", false, "only what further tools of ours cost")
	flag.Parse()
	s.names = flag.Args()
	var err error
	if len(s.names) == 2 && s.names[0] == "load" {
		err = serveLoad(s.names[1])
	} else {
		err = s.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench tools:", err)
		os.Exit(1)
	}
}

// loadsName is the file name of this command among the tools.
const loadsName = "bench"

func (s *settings) run() error {
	if s.costs {
		return s.runCosts()
	}
	known := names(s.guest != "" || s.bin != "")
	if len(s.names) == 0 {
		s.names = known
	}
	for _, name := range s.names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s is not compared here, only %s", name, strings.Join(known, ", "))
		}
	}
	if s.bin != "" {
		settle, gap = 3*time.Second, 2*time.Second // an emulated machine is slow
		return s.compare()
	}
	clean, err := s.build(s.names)
	defer clean()
	if err != nil {
		return err
	}
	if s.guest != "" {
		return s.inGuest(context.Background(), s.names, s.names...)
	}
	return s.compare()
}

// build builds the load and the tools into a directory, which clean removes. The binaries of
// go run have no symbols, which some tools need.
func (s *settings) build(names []string) (clean func(), err error) {
	if s.bin, err = os.MkdirTemp("", "bench-tools"); err != nil {
		return func() {}, err
	}
	clean = func() { os.RemoveAll(s.bin) }
	if err := build(filepath.Join(s.bin, loadsName), "internal/bench/tools"); err != nil {
		return clean, err
	}
	for _, name := range names {
		if err := build(filepath.Join(s.bin, name), "examples/"+name); err != nil {
			return clean, err
		}
	}
	return clean, nil
}

func (s *settings) compare() error {
	for _, c := range comparisons(s.bin, filepath.Join(s.bin, loadsName)) {
		if !slices.Contains(s.names, c.name) {
			continue
		}
		if c.prepare != nil {
			if err := c.prepare(); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		if err := c.measure(s.rounds); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		c.print()
		if err := c.together(); err != nil {
			return fmt.Errorf("%s side by side: %w", c.name, err)
		}
	}
	return nil
}

func build(to, pkg string) error {
	cmd := exec.Command("go", "build", "-o", to, "github.com/borescope/borescope/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
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

// round runs a tool once. A tool that fails is not run again.
func (c *comparison) round(t *tool) {
	r, err := c.once(t)
	if err != nil {
		t.gone = err
		return
	}
	b := &t.best
	b.start, b.event = least(b.start, r.start), least(b.event, r.event)
	b.peak = max(b.peak, r.peak)
	// Keep the worst of the counts, so that an event that was missed once shows.
	if b.counted == 0 || abs(r.counted-c.burst()) > abs(b.counted-c.burst()) {
		b.counted = r.counted
	}
}

// patience is the time in which a tool must have attached everything.
const patience = 2 * time.Minute

// settle is the time without a new attachment after which a tool has attached everything. gap
// is the time in which a tool reads its buffers.
var settle, gap = time.Second, 500 * time.Millisecond

// process is a running tool.
type process struct {
	cmd         *exec.Cmd
	out, stderr bytes.Buffer
	begin       time.Time
	ended       chan error
}

// start starts a tool, and returns when it has attached everything.
func (t *tool) start(pid int) (*process, error) {
	if _, err := exec.LookPath(t.args[0]); err != nil {
		return nil, err
	}
	p := &process{ended: make(chan error, 1)}
	args := slices.Clone(t.args[1:])
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], victim, strconv.Itoa(pid))
	}
	p.cmd = exec.Command(t.args[0], args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.stderr
	p.begin = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	if err := attached(p.cmd.Process.Pid, p.ended); err != nil {
		p.cmd.Process.Kill()
		return nil, fmt.Errorf("%w: %s", err, lastLine(p.stderr.String()))
	}
	return p, nil
}

// end ends the tool, and returns its output. If it had to be killed, too small a count shows
// it.
func (p *process) end() string {
	peer.Interrupt(p.cmd, p.ended)
	return p.out.String()
}

// withLoad calls do with the load and its victim.
func (c *comparison) withLoad(do func(l *load, pid int) error) (err error) {
	l, err := startLoad(c.loads, c.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	pid, err := l.victim()
	if err != nil {
		return err
	}
	return do(l, pid)
}

func (c *comparison) once(t *tool) (r run, err error) {
	return r, c.withLoad(func(l *load, pid int) error {
		if err := l.pulse(); err != nil {
			return err
		}
		p, err := t.start(pid)
		if err != nil {
			return err
		}
		pulses, err := l.stop()
		if err == nil {
			r.event, err = l.burst()
		}
		time.Sleep(gap)
		out := p.end()
		if err != nil {
			return err
		}
		r.peak = p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
		r.counted = t.seen(out, c.burstEvent)
		n := t.seen(out, c.pulseEvent)
		if n == 0 || n > len(pulses) {
			return fmt.Errorf("saw %d of %d events: %s", n, len(pulses), lastLine(p.stderr.String()))
		}
		r.start = pulses[len(pulses)-n].Sub(p.begin)
		return nil
	})
}

// together runs all tools at once on one burst, and prints the count of each.
func (c *comparison) together() error {
	return c.withLoad(func(l *load, pid int) error {
		var tools []*tool
		var running []*process
		for _, t := range c.tools {
			if t.gone != nil {
				continue
			}
			p, err := t.start(pid)
			if err != nil {
				for _, p := range running {
					p.end()
				}
				return err
			}
			tools, running = append(tools, t), append(running, p)
		}
		spent, err := l.accounted(running)
		time.Sleep(gap)
		var outs []string
		for _, p := range running {
			outs = append(outs, p.end())
		}
		if err != nil {
			return err
		}
		fmt.Printf("side by side, of %d:", c.burst())
		for i, t := range tools {
			fmt.Printf("  %s %d", t.name, t.seen(outs[i], c.burstEvent))
			for _, m := range lost.FindAllString(outs[i]+running[i].stderr.String(), -1) {
				fmt.Printf(" (%s)", m)
			}
		}
		fmt.Printf("\nin programs, by the kernel's count, each of %d:", kinds[c.name].events())
		for i, t := range tools {
			fmt.Printf("  %s %s", t.name, spent[i].Each(kinds[c.name].events()))
		}
		fmt.Println()
		if c.rows != nil {
			c.printRows(tools, outs)
		}
		return nil
	})
}

// lost matches a tool's report of events that it could not handle.
var lost = regexp.MustCompile(`(?m)^(Lost:? \d+ events|Possibly lost \d+ samples)`)

// printRows prints histograms side by side.
func (c *comparison) printRows(tools []*tool, outs []string) {
	all := hist{}
	fmt.Printf("%12s", "usecs from")
	for i, t := range tools {
		fmt.Printf(" %10s", t.name)
		for low, n := range c.rows(outs[i]) {
			all[low] += n
		}
	}
	fmt.Println()
	for _, low := range slices.Sorted(maps.Keys(all)) {
		if all[low] == 0 {
			continue
		}
		fmt.Printf("%12d", low)
		for _, out := range outs {
			fmt.Printf(" %10d", c.rows(out)[low])
		}
		fmt.Println()
	}
}

// attached waits until the process holds a perf event or a link, and has got no more of them
// for some time.
func attached(pid int, ended <-chan error) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	held, since := 0, time.Now()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			return fmt.Errorf("ended at once: %v", err)
		default:
		}
		n := 0
		fds, _ := os.ReadDir(dir)
		for _, fd := range fds {
			to, _ := os.Readlink(filepath.Join(dir, fd.Name()))
			if strings.Contains(to, "perf_event") || strings.Contains(to, "bpf_link") ||
				strings.Contains(to, "bpf-raw-tracepoint") {
				n++
			}
		}
		if n != held {
			held, since = n, time.Now()
		} else if held > 0 && time.Since(since) > settle {
			return nil
		}
	}
	return fmt.Errorf("not attached after %v", patience)
}

func (c *comparison) print() {
	fmt.Printf("\n%s: %s\n", c.name, c.what)
	fmt.Printf("%-12s %12s %16s %12s %10s %10s\n", "", "start ms", "counted", "added ns", "peak MiB",
		"start x")
	ours := c.tools[0].best
	for _, t := range c.tools {
		if t.gone != nil {
			fmt.Printf("%-12s left out: %v\n", t.name, t.gone)
			continue
		}
		b := t.best
		added := "-" // the start of a program takes too long, and varies
		k := kinds[c.name]
		if _, _, batch := k.timed(); batch*max(k.costEach, 1) > 1 {
			added = strconv.FormatInt((b.event - c.alone).Nanoseconds(), 10)
		}
		fmt.Printf("%-12s %12.1f %9d/%6d %12s %10.1f %10.1f\n", t.name, b.start.Seconds()*1e3, b.counted,
			c.burst(),
			added, float64(b.peak)/1024, b.start.Seconds()/ours.start.Seconds())
	}
}

// least returns the smaller value; 0 stands for none yet.
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
		if line := strings.TrimSpace(lines.Text()); line != "" &&
			!strings.Contains(line, "RLIMIT_MEMLOCK") {
			last = line
		}
	}
	return last
}
