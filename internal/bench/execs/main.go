// Execs measures a profile of the whole machine beside a storm of programs that begin and end as fast as
// the machine can: whether its memory and its descriptors grow, what it loses, and by how much the storm
// is slowed, beside what perf record does.
//
//	go -C internal/bench run ./execs [-n 120000] [-rounds 6] [-hz 99]  (as root, in a guest)
//
// It holds what a service would hold: a collector, its processes and their names.
package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"flag"
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

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

func main() {
	n := flag.Int("n", 120_000, "programs of the long storm")
	rounds := flag.Int("rounds", 6, "rounds, each without a profile, with one, and with perf's")
	each := flag.Int("each", 2000, "programs of a round's storms")
	hz := flag.Uint64("hz", 99, "samples a second and CPU")
	parts := flag.Bool("parts", false, "measure the parts of what a profile costs, too")
	storm := flag.String("storm", "", "run this `program` again and again: the storm itself")
	flag.Parse()
	err := error(nil)
	switch {
	case *storm != "":
		err = run(*storm, *n)
	case *rounds < 1 || *each < 1 || *n < 6:
		err = errors.New("give at least one round, one program in it, and six programs in all")
	default:
		err = measure(*n, *rounds, *each, *hz, *parts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench execs:", err)
		os.Exit(1)
	}
}

// program is an executable that ends at once.
func program() ([]byte, error) {
	code, ok := map[string][]byte{
		"amd64": {0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05},                  // mov eax, exit; xor edi, edi; syscall
		"arm64": {0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4}, // mov x0, 0; mov x8, exit; svc 0
	}[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no program for %s", runtime.GOARCH)
	}
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	const base, head = 0x400000, 64 + 56
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: base + head, Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	size := uint64(head + len(code))
	p := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: size, Memsz: size, Align: 0x1000,
	}
	var b bytes.Buffer
	err := errors.Join(binary.Write(&b, binary.LittleEndian, h), binary.Write(&b, binary.LittleEndian, p))
	b.Write(code)
	return b.Bytes(), err
}

// run runs a program n times, and says each thousand on standard output.
func run(path string, n int) error {
	for i := range n {
		pid, err := syscall.ForkExec(path, []string{path}, &syscall.ProcAttr{})
		if err != nil {
			return err
		}
		var status syscall.WaitStatus
		for {
			_, err = syscall.Wait4(pid, &status, 0, nil)
			if err != syscall.EINTR {
				break
			}
		}
		if err != nil || status.ExitStatus() != 0 {
			return fmt.Errorf("program %d ended with %d: %w", i, status.ExitStatus(), err)
		}
		if (i+1)%1000 == 0 {
			fmt.Println(i + 1)
		}
	}
	return nil
}

// stormOf runs a storm of n programs, and calls mark after each thousand. It returns how long it took, and the
// CPU time of it and its programs.
func stormOf(path string, n int, mark func(int) error) (took, cpu time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(self, "-storm", path, "-n", strconv.Itoa(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	var errs error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		at, err := strconv.Atoi(lines.Text())
		if err == nil && mark != nil {
			err = mark(at)
		}
		errs = errors.Join(errs, err)
	}
	took = time.Since(begin)
	errs = errors.Join(errs, cmd.Wait())
	return took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), errs
}

func profiled(hz uint64) (*collect.Profiler, error) {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: hz}}, &collect.Options{Windows: true})
	if err != nil {
		return nil, err
	}
	return collect.NewProfiler(c, nil)
}

func measure(n, rounds, each int, hz uint64, parts bool) error {
	dir, err := os.MkdirTemp("", "bench-execs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	image, err := program()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "ends")
	if err := os.WriteFile(path, image, 0o755); err != nil {
		return err
	}
	if err := slowed(path, rounds, each, hz, parts); err != nil {
		return err
	}
	return long(path, n, hz)
}

// slowed prints the storm's time beside a profile and beside perf's, to that without one: in turn, the median
// of the ratios.
func slowed(path string, rounds, each int, hz uint64, parts bool) error {
	besides := []beside{
		{"nothing", func(uint64) (func() error, error) { return func() error { return nil }, nil }},
		{"a profile", func(hz uint64) (func() error, error) {
			p, err := profiled(hz)
			if err != nil {
				return nil, err
			}
			return p.Close, nil
		}},
		{"perf record -a", perfRecord},
	}
	if _, err := exec.LookPath("perf"); err != nil {
		besides = besides[:2]
	}
	if parts {
		besides = append(besides, partsOf...)
	}
	took := make([][]time.Duration, len(besides))
	own, storms := make([]time.Duration, len(besides)), make([]time.Duration, len(besides))
	for i := range rounds {
		for k := range besides {
			k = (i + k) % len(besides) // who is first changes
			end, err := besides[k].begin(hz)
			if err != nil {
				return err
			}
			time.Sleep(time.Second)
			// What the machine runs is known by then, and the storm's own program by the end of a short storm.
			_, _, err = stormOf(path, each/4, nil)
			var t, cpu time.Duration
			before := cpuTime()
			if err == nil {
				t, cpu, err = stormOf(path, each, nil)
			}
			own[k] += cpuTime() - before
			storms[k] += cpu
			if err := errors.Join(err, end()); err != nil {
				return err
			}
			took[k] = append(took[k], t)
		}
	}
	for k := range besides {
		printCPU(besides[k].name, storms[k], own[k], rounds*each)
	}
	for k := 1; k < len(besides); k++ {
		ratios := make([]float64, rounds)
		for i := range ratios {
			ratios[i] = took[k][i].Seconds() / took[0][i].Seconds()
		}
		slices.Sort(ratios)
		fmt.Printf("storm of %d beside %s at %d Hz, to one without: median %.3f, %.3f to %.3f; fastest to fastest %.3f (%d rounds)\n",
			each, besides[k].name, hz, ratios[rounds/2], ratios[0], ratios[rounds-1],
			slices.Min(took[k]).Seconds()/slices.Min(took[0]).Seconds(), rounds)
	}
	return nil
}

// printCPU prints CPU times for each of n programs.
func printCPU(name string, storm, own time.Duration, n int) {
	each := func(t time.Duration) float64 { return t.Seconds() * 1e6 / float64(n) }
	fmt.Printf("CPU time for each program, beside %s: %.1f µs of the storm, %.1f µs of this process\n", name, each(storm), each(own))
}

// beside is what runs beside a storm.
type beside struct {
	name  string
	begin func(hz uint64) (end func() error, err error)
}

// partsOf are parts of what a profile has the kernel and this process do.
var partsOf = []beside{
	{"samples alone", func(hz uint64) (func() error, error) {
		c, err := collect.Attach([]probe.Target{probe.Perf{Freq: hz}}, &collect.Options{Windows: true})
		return c.Close, err
	}},
	{"records of tasks, unread", func(uint64) (func() error, error) { return unread(false) }},
	{"records of tasks and code, unread", func(uint64) (func() error, error) { return unread(true) }},
	{"following", func(uint64) (func() error, error) {
		ps := symbol.NewProcesses(nil)
		f, err := lifecycle.Follow(ps, nil)
		return func() error { return errors.Join(f.Close(), ps.Close()) }, err
	}},
}

// unread has the kernel write records as lifecycle.Follow does, into rings that are full soon.
func unread(code bool) (func() error, error) {
	online, err := cpus.Online(nil)
	if err != nil {
		return nil, err
	}
	s, err := pmc.OpenSampler(pmc.Dummy(), pmc.Scope{CPUs: online}, pmc.SamplingSpec{
		Task: true, Comm: true, Mmap: code, Time: true, MonotonicTime: true,
	}, &pmc.SamplerOptions{Pages: 4096})
	if err != nil {
		return nil, err
	}
	return s.Close, nil
}

// cpuTime is the processor time that this process has used, without its children's.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perfRecord records as a profile does, to a file that is removed.
func perfRecord(hz uint64) (end func() error, err error) {
	dir, err := os.MkdirTemp("", "bench-execs")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("perf", "record", "-q", "-g", "-a", "-F", strconv.FormatUint(hz, 10), "-o", filepath.Join(dir, "perf.data"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return func() error {
		err := cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // perf ends with the signal
		return errors.Join(err, os.RemoveAll(dir))
	}, nil
}

// long prints what a profile takes and loses while n programs run, at a sixth, a half and the end, each
// after a window was read.
func long(path string, n int, hz uint64) error {
	p, err := profiled(hz)
	if err != nil {
		return err
	}
	defer p.Close()
	marks := []int{n / 6 / 1000 * 1000, n / 2 / 1000 * 1000, n / 1000 * 1000}
	show := func(at int) error {
		prof, err := p.Window()
		if err != nil {
			return err
		}
		var samples int64
		for _, s := range prof.Samples {
			samples += s.Values[0]
		}
		runtime.GC()
		kb, err := resident()
		fds, ferr := os.ReadDir("/proc/self/fd")
		st, serr := p.Collector().Stats()
		fmt.Printf("after %6d programs: %5d KiB resident, %d descriptors, %d samples in the window; %+v\n", at, kb,
			len(fds), samples, st)
		return errors.Join(err, ferr, serr)
	}
	if err := show(0); err != nil {
		return err
	}
	took, _, err := stormOf(path, n, func(at int) error {
		if slices.Contains(marks, at) {
			return show(at)
		}
		return nil
	})
	fmt.Printf("%d programs in %v: %.0f a second\n", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	return err
}

// resident returns this process's resident memory in KiB.
func resident() (int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("/proc/self/status has no VmRSS")
	}
	return strconv.Atoi(fields[0])
}
