package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/borescope/borescope/symbol"
)

// nodeWork keeps a JIT compiler busy with many functions, in all its tiers.
const nodeWork = `
const fns = [];
for (let i = 0; i < 400; i++)
  fns.push(eval("(function f" + i + "(n) { let s = " + i + "; for (let k = 0; k < n; k++) {" +
    "s = (s * " + (i + 3) + " + k) % 1000003; if (s % 7 === " + i % 7 + ") s += [k, s].map(x => x + 1).length } return s })"));
const end = Date.now() + 3000;
let t = 0;
while (Date.now() < end)
  for (const f of fns) t += f(300) + JSON.stringify({t}).length + String(t).replace(/1/g, "2").length;
`

const javaWork = `
import java.util.*;
public class Work {
	interface Op { long of(long x); }
	public static void main(String[] args) {
		Map<String, Long> m = new TreeMap<>();
		Op[] ops = { x -> x * 31 + 7, x -> x ^ x >>> 3, Long::reverse, x -> x % 1000003 };
		long s = 1, end = System.currentTimeMillis() + 4000;
		for (int i = 0; System.currentTimeMillis() < end; i++) {
			s = ops[i & 3].of(s);
			m.merge("key" + Math.abs(s % 5000), 1L, Long::sum);
			if (i % 1000 == 0) s += String.join(",", m.keySet()).hashCode();
			if (i % 3000 == 0) { List<Long> l = new ArrayList<>(m.values()); Collections.sort(l); s += l.hashCode(); }
		}
	}
}
`

// jitCase is a program whose generated code is named.
type jitCase struct {
	name    string
	source  string // file to which work is written
	work    string
	command []string
	dump    bool // the program writes a jitdump
}

var jitCases = []jitCase{
	{"node, perf map", "work.js", nodeWork, []string{"node", "--perf-basic-prof", "work.js"}, false},
	{"node, jitdump", "work.js", nodeWork, []string{"node", "--perf-prof", "work.js"}, true},
	{"java, perf map", "Work.java", javaWork, []string{
		"java", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "Work.java",
	}, false},
}

// jit records programs with JIT compilers by perf, and scores the names of all sampled
// addresses against those of perf script.
func jit(w *tabwriter.Writer, verbose bool) error {
	for _, c := range jitCases {
		if _, err := exec.LookPath(c.command[0]); err != nil {
			continue
		}
		if err := c.run(w, verbose); err != nil {
			fmt.Fprintf(w, "%s\t%v\n", c.name, err)
		}
	}
	return w.Flush()
}

func (c *jitCase) run(w *tabwriter.Writer, verbose bool) error {
	dir, err := os.MkdirTemp("", "symscore")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, c.source), []byte(c.work), 0o600); err != nil {
		return err
	}
	perf := func(args ...string) (string, time.Duration, error) {
		cmd := exec.Command("perf", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return "", 0, fmt.Errorf("perf %s: %w", args[0], err)
		}
		return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
	record := append([]string{
		"record", "-q", "-k", "mono", "-F", "10000", "-e", "cpu-clock", "-o",
		"data", "--",
	}, c.command...)
	if _, _, err := perf(record...); err != nil {
		return err
	}
	data, inject := "data", time.Duration(0)
	if c.dump {
		data = "injected"
		if _, inject, err = perf("inject", "-j", "-i", "data", "-o", data); err != nil {
			return err
		}
	}
	out, took, err := perf("script", "-i", data, "-F", "pid,ip,sym,symoff,dso", "--no-inline")
	if err != nil {
		return err
	}
	want, pid, err := parseScript(out)
	if err != nil {
		return err
	}
	report(w, c.name, "perf", score{right: len(want)}, cost{took + inject, took + inject})
	before := cpuTime()
	r, err := c.open(dir, pid)
	if err != nil {
		return err
	}
	var s score
	for pc, name := range want {
		f := r.Resolve(nil, []uint64{pc})[0]
		got := ""
		if f.Name != "" {
			got = fmt.Sprintf("%s+%#x", f.Name, f.Offset)
		}
		right := s.right
		s.add(got, name, func(a, b string) bool { return false })
		if verbose && s.right == right {
			fmt.Fprintf(os.Stderr, "%s %#x: got %q, want %q\n", c.name, pc, got, name)
		}
	}
	spent := cpuTime() - before
	report(w, c.name, "borescope", s, cost{spent, spent})
	return nil
}

// parseScript parses lines of "PID ADDRESS NAME+OFFSET (MODULE)". It returns the names, with
// their offsets, of the addresses in generated code.
func parseScript(out string) (names map[uint64]string, pid int, err error) {
	names = map[uint64]string{}
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		name, module, ok := strings.Cut(line, " (/")
		if !ok || !strings.Contains(module, "/jitted-") && !strings.Contains(module, "perf-") {
			continue
		}
		f := strings.SplitN(name, " ", 2)
		if len(f) < 2 {
			continue
		}
		addr, name, _ := strings.Cut(strings.TrimSpace(f[1]), " ")
		pc, err := strconv.ParseUint(addr, 16, 64)
		if err != nil || name == "[unknown]" {
			continue
		}
		names[pc] = name
		if pid, err = strconv.Atoi(f[0]); err != nil {
			return nil, 0, fmt.Errorf("perf script: %q", line)
		}
	}
	if len(names) == 0 {
		return nil, 0, errors.New("perf names no generated code")
	}
	return names, pid, nil
}

// open reads the file that the program's compiler wrote.
func (c *jitCase) open(dir string, pid int) (symbol.Resolver, error) {
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if c.dump {
		path = fmt.Sprintf("%s/jit-%d.dump", dir, pid)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if c.dump {
		return symbol.ParseJITDump(f)
	}
	defer os.Remove(path)
	return symbol.ParsePerfMap(f)
}
