// Execs measures a profile of the whole machine beside a storm of programs that begin and end as fast as
// the machine can: whether its memory and its descriptors grow, what it loses, and by how much the storm
// is slowed.
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

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
)

func main() {
	n := flag.Int("n", 120_000, "programs of the long storm")
	rounds := flag.Int("rounds", 6, "rounds, each with a profile and without")
	each := flag.Int("each", 2000, "programs of a round's storms")
	hz := flag.Uint64("hz", 99, "samples a second and CPU")
	storm := flag.String("storm", "", "run this `program` again and again: the storm itself")
	flag.Parse()
	err := error(nil)
	switch {
	case *storm != "":
		err = run(*storm, *n)
	case *rounds < 1 || *each < 1 || *n < 6:
		err = errors.New("give at least one round, one program in it, and six programs in all")
	default:
		err = measure(*n, *rounds, *each, *hz)
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

// stormOf runs a storm of n programs, and calls mark after each thousand. It returns how long it took.
func stormOf(path string, n int, mark func(int) error) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, "-storm", path, "-n", strconv.Itoa(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var errs error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		at, err := strconv.Atoi(lines.Text())
		if err == nil && mark != nil {
			err = mark(at)
		}
		errs = errors.Join(errs, err)
	}
	return time.Since(begin), errors.Join(errs, cmd.Wait())
}

func profiled(hz uint64) (*collect.Profiler, error) {
	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: hz}}, &collect.Options{Windows: true})
	if err != nil {
		return nil, err
	}
	return collect.NewProfiler(c, nil)
}

func measure(n, rounds, each int, hz uint64) error {
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
	if err := slowed(path, rounds, each, hz); err != nil {
		return err
	}
	return long(path, n, hz)
}

// slowed prints the storm's time beside a profile, to that without one: in turn, the median of the ratios.
func slowed(path string, rounds, each int, hz uint64) error {
	var ratios []float64
	for i := range rounds {
		var took [2]time.Duration
		for k := range took {
			with := (i + k) % 2 // who is first changes
			var err error
			if with == 1 {
				took[1], err = beside(path, each, hz)
			} else {
				took[0], err = stormOf(path, each, nil)
			}
			if err != nil {
				return err
			}
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	slices.Sort(ratios)
	fmt.Printf("storm of %d beside a profile at %d Hz, to one without: median %.3f, %.3f to %.3f (%d rounds)\n",
		each, hz, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1], rounds)
	return nil
}

// beside is a storm while a profile is made, which has begun.
func beside(path string, n int, hz uint64) (time.Duration, error) {
	p, err := profiled(hz)
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Second) // what the machine runs is known by then
	took, err := stormOf(path, n, nil)
	return took, errors.Join(err, p.Close())
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
	took, err := stormOf(path, n, func(at int) error {
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
