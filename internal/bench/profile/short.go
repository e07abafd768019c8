package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/bench/peer"
)

// shortSource is the program whose processes live for some milliseconds, each of which it spends in
// libc's qsort, and that loads a library late.
//
//go:embed testdata/short.c
var shortSource []byte

// late is a library to be loaded.
const late = `
__attribute__((noinline)) static long leaf(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline)) static long down(int depth, long n) { return depth ? down(depth - 1, n) + 1 : leaf(n); }
long work(long n) { return down(20, n) + 1; }
`

// imports is a Python program that works, and imports a module with a library in the middle.
const imports = `
import json, sys, time
def deep(n): return deep(n-1) if n else json.loads(json.dumps({'a': list(range(50))}))
end = time.time() + float(sys.argv[1]) / 2
while time.time() < end: deep(20)
import sqlite3
end = time.time() + float(sys.argv[1]) / 2
while time.time() < end:
    db = sqlite3.connect(':memory:')
    db.execute('create table t (a, b)')
    db.executemany('insert into t values (?, ?)', [(i, str(i)) for i in range(300)])
    db.execute('select sum(a) from t where b like "%7%" group by a % 7').fetchall()
`

// youngWork is what is sampled: for so many seconds.
type youngWork struct {
	name string
	comm []string // the threads that count
	argv func(dir string, seconds int) []string
}

func youngWorks(dir string) []youngWork {
	loop := func(ms int) func(string, int) []string {
		return func(dir string, seconds int) []string {
			return []string{filepath.Join(dir, "short"), "loop", strconv.Itoa(ms), strconv.Itoa(seconds)}
		}
	}
	sh := func(script string) func(string, int) []string {
		return func(dir string, seconds int) []string {
			return []string{"/bin/sh", "-c", script, "sh", dir, strconv.Itoa(seconds)}
		}
	}
	short := []string{"short"}
	return []youngWork{
		{"processes of 3 ms", short, loop(3)},
		{"processes of 10 ms", short, loop(10)},
		{"processes of 30 ms", short, loop(30)},
		{"a library loaded late", short, func(dir string, seconds int) []string {
			return []string{filepath.Join(dir, "short"), "late", filepath.Join(dir, "late.so"), strconv.Itoa(seconds)}
		}},
		{"python3 importing sqlite3", []string{"python3", "python3.11"}, func(_ string, seconds int) []string {
			return []string{"/usr/bin/python3", "-c", imports, strconv.Itoa(seconds)}
		}},
		{"gcc -O2, again and again", []string{"cc1", "as", "gcc", "collect2"}, sh(
			`end=$(($(date +%s) + $2)); while [ $(date +%s) -lt $end ]; do gcc -O2 -c -o /dev/null $1/short.c; done`)},
		{"shells that start programs", []string{"sh", "date", "true"}, sh(
			`end=$(($(date +%s) + $2)); while [ $(date +%s) -lt $end ]; do sh -c 'for i in 1 2 3; do /bin/true; done'; done`)},
	}
}

// young prints how many of the user stacks are whole of processes that live for milliseconds, or map
// code while they run: by each of the builds of examples/profile, and by perf record with copies of
// stacks, one after the other.
func young(seconds int, before, only string, perf, calls bool) error {
	dir, err := os.MkdirTemp("", "bench-profile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildYoung(dir); err != nil {
		return err
	}
	ours, err := peer.BuildProfile(dir)
	if err != nil {
		return err
	}
	tools := []string{ours}
	if before != "" {
		tools = append(tools, before)
	}
	for _, w := range youngWorks(dir) {
		if !strings.Contains(w.name, only) {
			continue
		}
		if calls {
			if err := callers(ours, &w, dir, seconds, 999); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			continue
		}
		for _, hz := range []int{99, 999} {
			for i, tool := range tools {
				name := [...]string{"borescope", "the build before"}[i]
				s, err := youngShare(tool, &w, dir, seconds, hz)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", name, w.name, err)
				}
				fmt.Printf("%-26s %4d Hz  %-16s %v\n", w.name, hz, name, s)
			}
			if !perf {
				continue
			}
			s, err := youngPerf(&w, dir, seconds, hz)
			if errors.Is(err, exec.ErrNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("perf: %s: %w", w.name, err)
			}
			fmt.Printf("%-26s %4d Hz  %-16s %v\n", w.name, hz, "perf, dwarf", s)
		}
	}
	return nil
}

func buildYoung(dir string) error {
	c := filepath.Join(dir, "short.c")
	lib := filepath.Join(dir, "late.c")
	err := errors.Join(os.WriteFile(c, shortSource, 0o644), os.WriteFile(lib, []byte(late), 0o644))
	if err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"gcc", "-O2", "-fomit-frame-pointer", "-o", filepath.Join(dir, "short"), c, "-ldl"},
		{"gcc", "-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", filepath.Join(dir, "late.so"), lib},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", argv, err, out)
		}
	}
	return nil
}

// ends counts user stacks by how they end.
type ends map[string]int

func (e ends) String() string {
	total, whole := 0, 0
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(e)) {
		total += e[k]
		if k == "" {
			whole = e[k]
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %d", k, e[k]))
	}
	return fmt.Sprintf("%6d of %-6d %6.2f%%  %s", whole, total, 100*float64(whole)/float64(max(1, total)), strings.Join(parts, ", "))
}

// start starts the work.
func (w *youngWork) start(dir string, seconds int) (stop func(), err error) {
	argv := w.argv(dir, seconds)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }, nil
}

// youngShare counts the whole stacks of a build of examples/profile.
func youngShare(tool string, w *youngWork, dir string, seconds, hz int) (ends, error) {
	stop, err := w.start(dir, seconds+1)
	if err != nil {
		return nil, err
	}
	defer stop()
	time.Sleep(200 * time.Millisecond)
	var out bytes.Buffer
	cmd := exec.Command(tool, "-F", strconv.Itoa(hz), "-d", strconv.Itoa(seconds), "-json")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	if f := os.Getenv("BENCH_KEEP"); f != "" {
		_ = os.WriteFile(f, out.Bytes(), 0o644)
	}
	e := ends{}
	for s := json.NewDecoder(&out); s.More(); {
		var line struct {
			Type, Comm, End string
			Count           int
			Frames          []string
		}
		if err := s.Decode(&line); err != nil {
			return nil, err
		}
		user := len(line.Frames) > 0 && !strings.HasSuffix(line.Frames[0], "_[k]")
		if line.Type != "stack" || !slices.Contains(w.comm, line.Comm) || !user {
			continue
		}
		if line.End == "bottom" {
			line.End = ""
		}
		e[line.End] += line.Count
	}
	fmt.Printf("%60s peak %.1f MiB, %.2f s of CPU\n", "",
		float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024,
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	return e, nil
}

// youngPerf counts those of perf record --call-graph dwarf.
func youngPerf(w *youngWork, dir string, seconds, hz int) (ends, error) {
	stop, err := w.start(dir, seconds+1)
	if err != nil {
		return nil, err
	}
	defer stop()
	time.Sleep(200 * time.Millisecond)
	data := filepath.Join(dir, "perf.data")
	if err := exec.Command("perf", "record", "-q", "-a", "-e", "cpu-clock:u", "-F", strconv.Itoa(hz),
		"--call-graph", "dwarf,16384", "-o", data, "sleep", strconv.Itoa(seconds)).Run(); err != nil {
		return nil, err
	}
	stop()
	script := exec.Command("perf", "script", "-F", "comm,ip,sym", "-i", data)
	out, err := script.Output()
	if err != nil {
		return nil, err
	}
	e := ends{}
	comm, last := "", [2]string{}
	for s := bufio.NewScanner(bytes.NewReader(append(out, '\n'))); s.Scan(); {
		line := s.Text()
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
			if slices.Contains(w.comm, comm) && last[1] != "" {
				if isStart(last[:]...) || strings.HasPrefix(last[1], "_dl_start") || strings.HasPrefix(last[1], "clone") {
					e[""]++
				} else {
					e["cut"]++
				}
			}
			comm, last = "", [2]string{}
		case line[0] != ' ' && line[0] != '\t':
			comm = f[0]
		case len(f) > 1:
			last = [2]string{last[1], f[1]}
		}
	}
	return e, nil
}
