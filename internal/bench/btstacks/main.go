// Command btstacks takes user stacks of programs without frame pointers, as Debian has them, by
// package script and by bpftrace, and prints how many of all samples are whole: end in the function
// with which a process or a thread begins. Of package script's it also prints how many of the calls
// in them perf script sees too, which walks by DWARF:
//
//	go -C internal/bench run ./btstacks [-d 10s]
//
// As root, with bpftrace and perf.
package main

import (
	"bytes"
	"context"
	"debug/elf"
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

	"github.com/borescope/borescope/probe/script"
)

// programs run until they are killed.
var programs = []struct {
	name string
	argv []string
}{
	{"python3", []string{"python3", "-c", "def deep(n): return deep(n-1) if n else sorted(range(300), key=lambda v: -v)\nwhile True: deep(20)"}},
	{"openssl", []string{"openssl", "speed", "-seconds", "1000", "rsa2048"}},
	{"bash", []string{"bash", "-c", `f() { if (( $1 > 0 )); then f $(( $1 - 1 )); else for ((i=0;i<300;i++)); do x=${x//a/bb}; x=${x:0:50}aa; done; fi; }; while :; do f 4; done`}},
	{"perl", []string{"perl", "-e", `sub f { my $n = shift; return $n ? f($n-1) : do { my $s = "abc" x 100; $s =~ s/b+/x/g; my @a = sort map { $_ * 3 % 17 } 1..200; scalar @a } } while (1) { f(10) }`}},
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
	edges, err := byPerf(pid, d)
	if err != nil {
		return err
	}
	entries, err := entriesOf(pid)
	if err != nil {
		return err
	}
	n, whole := ours.count(entries)
	seen, calls := ours.calls(edges)
	tn, twhole := theirs.count(entries)
	fmt.Printf("%-8s %5.1f %% of %d whole, perf sees %.2f %% of %d calls; bpftrace %5.1f %% of %d\n",
		name, percent(whole, n), n, percent(seen, calls), calls, percent(twhole, tn), tn)
	return nil
}

func percent(a, b int) float64 { return 100 * float64(a) / float64(max(b, 1)) }

// stacks are functions' names, innermost first, with how often each was seen.
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

// parse reads entries "@[", lines of frames, "]: 5". A frame is kept as "address name".
func parse(out string) stacks {
	list := stacks{}
	for _, part := range strings.Split(out, "@[")[1:] {
		frames, count, ok := strings.Cut(part, "]: ")
		count, _, _ = strings.Cut(count, "\n")
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if !ok || err != nil {
			continue
		}
		var names []string
		for line := range strings.Lines(frames) {
			if f := strings.Fields(line); len(f) > 1 {
				name, _, _ := strings.Cut(f[1], "+")
				names = append(names, f[0]+" "+name)
			}
		}
		list[strings.Join(names, "\n")] += n
	}
	return list
}

// begins are the functions with which threads begin.
var begins = []string{"clone", "__clone3", "clone3", "start_thread"}

// startSize is the most that the code at a program's entry point has.
const startSize = 64

// count returns how many samples there are, and how many of them are whole: end at the entry point of
// the program or its loader, or where a thread begins.
func (s stacks) count(entries []uint64) (n, whole int) {
	for stack, times := range s {
		n += times
		frames := strings.Split(stack, "\n")
		address, name, _ := strings.Cut(frames[len(frames)-1], " ")
		pc, _ := strconv.ParseUint(address, 16, 64)
		at := func(entry uint64) bool { return pc >= entry && pc < entry+startSize }
		if slices.Contains(begins, name) || slices.ContainsFunc(entries, at) {
			whole += times
		}
	}
	return n, whole
}

// entriesOf returns the entry point of a process's program.
func entriesOf(pid int) ([]uint64, error) {
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	f, err := elf.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Type == elf.ET_EXEC {
		return []uint64{f.Entry}, nil
	}
	path, err := os.Readlink(exe)
	if err != nil {
		return nil, err
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, path) { // the first is of offset 0
			start, _, _ := strings.Cut(line, "-")
			base, err := strconv.ParseUint(start, 16, 64)
			return []uint64{base + f.Entry}, err
		}
	}
	return nil, errors.New("the program is not mapped")
}

// call is a function and its caller.
type call struct{ callee, caller string }

// calls returns how many calls the stacks have, and how many of them are known.
func (s stacks) calls(known map[call]bool) (seen, n int) {
	for stack, times := range s {
		frames := strings.Split(stack, "\n")
		for i := 1; i < len(frames); i++ {
			_, a, _ := strings.Cut(frames[i-1], " ")
			_, b, _ := strings.Cut(frames[i], " ")
			a, b = plain(a), plain(b)
			if strings.HasPrefix(a, "0x") || strings.HasPrefix(b, "0x") {
				continue
			}
			if n += times; known[call{a, b}] {
				seen += times
			}
		}
	}
	return seen, n
}

// plain returns a name without its version.
func plain(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}

// byPerf returns the calls in the stacks that perf walks by DWARF.
func byPerf(pid int, d time.Duration) (map[call]bool, error) {
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
	show := exec.Command("perf", "script", "-i", file, "-F", "ip,sym", "--no-inline")
	out, err := show.Output()
	if err != nil {
		return nil, err
	}
	edges := map[call]bool{}
	last := ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			last = ""
			continue
		}
		if last != "" {
			edges[call{last, plain(fields[1])}] = true
		}
		last = plain(fields[1])
	}
	if len(edges) == 0 {
		return nil, errors.New("perf script shows no calls")
	}
	return edges, nil
}
