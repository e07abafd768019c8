// Command btstacks takes user stacks of programs without frame pointers, as Debian has them, by
// package script and by bpftrace, and prints how many of all samples are whole: end in the function
// with which a process begins. Of package script's it also prints how many of the calls in them perf
// script sees too, which walks by DWARF:
//
//	go -C internal/bench run ./btstacks [-d 10s]
//
// As root, with bpftrace and perf.
package main

import (
	"bytes"
	"context"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/bench/peer"
	"github.com/borescope/borescope/probe/script"
)

// programs run until they are killed. They are Debian's: a python3 of pyenv precedes it in PATH.
var programs = []struct {
	name string
	argv []string
}{
	{"python3", []string{"/usr/bin/python3", "-c", "def deep(n): return deep(n-1) if n else sorted(range(300), key=lambda v: -v)\nwhile True: deep(20)"}},
	{"openssl", []string{"/usr/bin/openssl", "speed", "-seconds", "1000", "rsa2048"}},
	{"bash", []string{"/usr/bin/bash", "-c", `f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else for ((i=0;i<300;i++)); do x=${x//a/bb}; x=${x:0:50}aa; done; fi; }; while :; do f 4; done`}},
	{"perl", []string{"/usr/bin/perl", "-e", `sub f { my $n = shift; return $n ? f($n-1) : do { my $s = "abc" x 100; $s =~ s/b+/x/g; my @a = sort map { $_ * 3 % 17 } 1..200; scalar @a } } while (1) { f(10) }`}},
}

func main() {
	d := flag.Duration("d", 10*time.Second, "`duration` of each")
	flag.Parse()
	for _, p := range programs {
		if err := compare(p.name, p.argv, *d); err != nil {
			fmt.Fprintf(os.Stderr, "btstacks: %s: %v\n", p.name, err)
			os.Exit(1)
		}
	}
}

func compare(name string, argv []string, d time.Duration) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	time.Sleep(time.Second) // it has begun
	pid := cmd.Process.Pid
	ours, err := byScript(pid, d)
	if err != nil {
		return err
	}
	theirs, err := byBpftrace(pid, d)
	if err != nil {
		return err
	}
	known, err := byPerf(pid, d)
	if err != nil {
		return err
	}
	space, err := spaceOf(pid)
	if err != nil {
		return err
	}
	n, whole := ours.count(space.entry)
	seen, calls := ours.calls(known, space)
	tn, twhole := theirs.count(space.entry)
	fmt.Printf("%-8s %5.1f %% of %d whole, perf sees %.2f %% of %d calls; bpftrace %5.1f %% of %d\n",
		name, percent(whole, n), n, percent(seen, calls), calls, percent(twhole, tn), tn)
	return nil
}

func percent(a, b int) float64 { return 100 * float64(a) / float64(max(b, 1)) }

// stacks are addresses, a line for each, innermost first, with how often each was seen.
type stacks map[string]int

// text is the script, in the words of both languages.
const text = `profile:hz:499 /pid == %d/ { @[ustack(perf, 127)] = count(); } interval:ms:%d { exit(); }`

func byScript(pid int, d time.Duration) (stacks, error) {
	p, err := script.Compile("btstacks", fmt.Sprintf(text, pid, d.Milliseconds()), nil)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = p.Run(context.Background(), &script.RunOptions{Stdout: &out, Stderr: os.Stderr, Quiet: true})
	return parse(out.String()), err
}

func byBpftrace(pid int, d time.Duration) (stacks, error) {
	cmd := exec.Command("bpftrace", "-e", fmt.Sprintf(text, pid, d.Milliseconds()))
	out, err := cmd.Output()
	return parse(string(out)), err
}

// parse reads entries "@[", lines of frames, "]: 5".
func parse(out string) stacks {
	list := stacks{}
	for _, part := range strings.Split(out, "@[")[1:] {
		frames, count, ok := strings.Cut(part, "]: ")
		count, _, _ = strings.Cut(count, "\n")
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if !ok || err != nil {
			continue
		}
		var addresses []string
		for line := range strings.Lines(frames) {
			f := strings.Fields(line)
			if len(f) > 1 && f[len(f)-1] != "(inlined)" { // which is at the address of its caller
				addresses = append(addresses, f[0])
			}
		}
		list[strings.Join(addresses, "\n")] += n
	}
	return list
}

// addresses returns those of a stack.
func addresses(stack string) (list []uint64) {
	for line := range strings.SplitSeq(stack, "\n") {
		if a, err := strconv.ParseUint(line, 16, 64); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// startSize is the most that the code at a program's entry point has.
const startSize = 64

// count returns how many samples there are, and how many of them are whole: end at the entry point of
// the program.
func (s stacks) count(entry uint64) (n, whole int) {
	for stack, times := range s {
		n += times
		list := addresses(stack)
		if len(list) == 0 {
			continue
		}
		if last := list[len(list)-1]; last >= entry && last < entry+startSize {
			whole += times
		}
	}
	return n, whole
}

// space is what a process has where.
type space struct {
	entry uint64 // the program's entry point
	files []mapping
}

type mapping struct {
	start, end, offset uint64
	path               string
}

func spaceOf(pid int) (*space, error) {
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	f, err := elf.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	path, err := os.Readlink(exe)
	if err != nil {
		return nil, err
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	s := &space{entry: f.Entry}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		m := mapping{path: fields[5]}
		if _, err := fmt.Sscanf(fields[0]+" "+fields[2], "%x-%x %x", &m.start, &m.end, &m.offset); err != nil {
			return nil, err
		}
		if m.path == path && m.offset == 0 && f.Type == elf.ET_DYN {
			s.entry = m.start + f.Entry
		}
		s.files = append(s.files, m)
	}
	return s, nil
}

// place returns an address as a file and an offset in it, "" if it is in no file.
func (s *space) place(address uint64) string {
	for _, m := range s.files {
		if address >= m.start && address < m.end {
			return peer.PlaceIn(m.path, address-m.start+m.offset)
		}
	}
	return ""
}

// calls returns how many calls the stacks have, and how many of them are known.
func (s stacks) calls(known map[peer.Call]bool, in *space) (seen, n int) {
	for stack, times := range s {
		inner := ""
		for i, a := range addresses(stack) {
			if i == 0 {
				continue
			}
			outer := in.place(a - 1) // the call; a is where it returns
			if n += times; known[peer.Call{Inner: inner, Outer: outer}] {
				seen += times
			}
			inner = outer
		}
	}
	return seen, n
}

// byPerf returns the calls in the stacks that perf walks by DWARF.
func byPerf(pid int, d time.Duration) (map[peer.Call]bool, error) {
	dir, err := os.MkdirTemp("", "btstacks")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "perf.data")
	record := exec.Command("perf", "record", "-q", "-e", "cpu-clock:u", "-F", "499", "--call-graph", "dwarf,65528", "-o", file,
		"-p", strconv.Itoa(pid), "--", "sleep", strconv.FormatFloat(d.Seconds(), 'f', 1, 64))
	if out, err := record.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	known := map[peer.Call]bool{}
	_, err = peer.PerfStacks(file, func(s *peer.PerfStack) {
		for _, c := range s.Calls {
			known[c] = true
		}
	})
	return known, err
}
