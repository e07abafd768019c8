package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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

// programs are programs without frame pointers, as Debian ships them. The last argument is
// the work that they do.
var programs = []struct {
	name string
	argv []string
}{
	{"python3", []string{
		"/usr/bin/python3", "-c",
		"import json\ndef deep(n): return deep(n-1) if n else json.loads(json.dumps({'a': list(range(50))}))\nwhile True: deep(20)",
	}},
	{"openssl speed", []string{"openssl", "speed", "-seconds", "600", "rsa2048"}},
	{"gdb", []string{
		"gdb", "-nx", "-batch", "-ex",
		"python\nwhile True: gdb.parse_and_eval('1 + 2 * 3')",
	}},
	{"bash", []string{
		"bash", "-c",
		"f() { if (( $1 )); then f $(( $1 - 1 )); else for ((i = 0; i < 300; i++)); do x=${x//a/bb}; x=${x:0:50}aa; done; fi; }; while :; do f 25; done",
	}},
	{"perl", []string{
		"perl", "-e",
		"sub f { my $n = shift; return $n ? f($n-1) : join ',', sort map { $_ * 3 % 17 } 1..200 } while (1) { f(10) }",
	}},
}

// stackSeconds is the time for which all tracers sample each program.
const stackSeconds = 10

// wholeStacks prints for each program the share of the samples whose user stack reaches the
// program's start, for each tracer, all at the same time.
func wholeStacks() error {
	dir, err := os.MkdirTemp("", "bench-profile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, err := peer.BuildProfile(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%-16s %24s %24s %24s\n", "program", "borescope profile", "bpftrace ustack",
		"perf record -g")
	for _, p := range programs {
		if err := wholeStacksOf(p.name, p.argv, ours, dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// algorithms are the algorithms of OpenSSL that are measured one by one, each with
// hand-written assembly of its own: ciphers, digests, signatures and key agreements.
var algorithms = [][]string{
	{"-evp", "aes-128-cbc"},
	{"-evp", "aes-256-gcm"},
	{"-evp", "aes-256-ctr"},
	{"-evp", "aes-128-xts"},
	{"-evp", "chacha20-poly1305"},
	{"-evp", "camellia-128-cbc"},
	{"-evp", "aria-128-cbc"},
	{"-evp", "des-ede3"},
	{"-evp", "sm4"},
	{"-evp", "md5"},
	{"-evp", "sha1"},
	{"-evp", "sha256"},
	{"-evp", "sha512"},
	{"-evp", "sha3-256"},
	{"-evp", "blake2b512"},
	{"-evp", "sm3"},
	{"rsa2048"},
	{"rsa4096"},
	{"dsa2048"},
	{"ecdsap256"},
	{"ecdsap384"},
	{"ecdhx25519"},
	{"ed25519"},
}

// wholeAlgorithms prints for each algorithm the share of borescope's samples whose user stack
// reaches the program's start.
func wholeAlgorithms(seconds int) error {
	dir, err := os.MkdirTemp("", "bench-profile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, err := peer.BuildProfile(dir)
	if err != nil {
		return err
	}
	whole := 0
	for _, a := range algorithms {
		n, err := wholeAlgorithm(a, ours, seconds)
		if err != nil {
			return fmt.Errorf("%s: %w", a[len(a)-1], err)
		}
		if n[0] == n[1] {
			whole++
		}
		fmt.Printf("%-20s %6d/%-6d %6.2f%%\n", a[len(a)-1], n[0], n[1], 100*float64(n[0])/float64(n[1]))
	}
	fmt.Printf("%d of %d are all whole\n", whole, len(algorithms))
	return nil
}

func wholeAlgorithm(args []string, ours string, seconds int) (n [2]int, err error) {
	cmd := exec.Command("openssl", append([]string{"speed", "-seconds", "600"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return n, err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	time.Sleep(500 * time.Millisecond) // until it works
	var out bytes.Buffer
	tracer := exec.Command(ours, "-p", strconv.Itoa(cmd.Process.Pid), "-U", "-f", "-F", "999", "-d",
		strconv.Itoa(seconds))
	tracer.Stdout = &out
	if err := tracer.Run(); err != nil {
		return n, fmt.Errorf("%s: %w", ours, err)
	}
	if n = countFolded(&out); n[1] == 0 {
		return n, errors.New("no samples")
	}
	return n, nil
}

func wholeStacksOf(name string, argv []string, ours, dir string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	pid, err := busiest(cmd.Process.Pid)
	if err != nil {
		return err
	}
	id, secs, data := strconv.Itoa(pid), strconv.Itoa(stackSeconds), filepath.Join(dir, "perf.data")
	var outs [3]bytes.Buffer
	cmds := []*exec.Cmd{
		exec.Command(ours, "-p", id, "-U", "-f", "-F", "499", "-d", secs),
		exec.Command("bpftrace", "-e", "profile:hz:499 /pid == "+id+
			"/ { @[ustack(perf)] = count(); } interval:s:"+secs+" { exit(); }"),
		exec.Command("perf", "record", "-q", "-F", "499", "-g", "-p", id, "-o", data, "sleep", secs),
	}
	for i, c := range cmds {
		c.Stdout = &outs[i]
		if err := c.Start(); err != nil {
			return err
		}
	}
	for _, c := range cmds {
		if err := c.Wait(); err != nil {
			return fmt.Errorf("%s: %w", c.Path, err)
		}
	}
	outs[2].Reset()
	script := exec.Command("perf", "script", "-F", "ip,sym", "-i", data)
	script.Stdout = &outs[2]
	if err := script.Run(); err != nil {
		return err
	}
	fmt.Printf("%-16s", name)
	for _, count := range [...][2]int{
		countFolded(&outs[0]), countBpftrace(&outs[1]),
		countPerf(&outs[2]),
	} {
		fmt.Printf(" %9d/%-6d %6.1f%%", count[0], count[1],
			100*float64(count[0])/float64(max(1, count[1])))
	}
	fmt.Println()
	return nil
}

// busiest waits until the program works, and returns the process that does: it may be a
// child.
func busiest(pid int) (int, error) {
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return 0, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if f := strings.Fields(string(b)); err == nil && len(f) > 0 {
		return strconv.Atoi(f[0])
	}
	return pid, nil
}

// isStart reports whether one of a stack's two outermost frames is where the program begins.
// In a stripped program _start itself may have no name, but the function of libc that it
// calls has one.
func isStart(outermost ...string) bool {
	return slices.ContainsFunc(outermost, func(name string) bool {
		return strings.HasPrefix(name, "_start") || strings.HasPrefix(name, "__libc_start")
	})
}

// countFolded counts the folded stacks that begin with the program's start, and all of them.
func countFolded(b *bytes.Buffer) (n [2]int) {
	for line := range strings.Lines(b.String()) {
		i := strings.LastIndexByte(line, ' ')
		count, err := strconv.Atoi(strings.TrimSpace(line[i+1:]))
		if err != nil {
			continue
		}
		n[1] += count
		if frames := strings.Split(line[:i], ";"); isStart(frames[1:min(3, len(frames))]...) {
			n[0] += count
		}
	}
	return n
}

// countBpftrace does the same for maps of ustack(perf): a line "\tADDR NAME+OFF (FILE)" for
// each frame, the outermost last, then "]: COUNT".
func countBpftrace(b *bytes.Buffer) (n [2]int) {
	var last [2]string
	for s := bufio.NewScanner(b); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if _, rest, ok := strings.Cut(line, "]: "); ok {
			count, _ := strconv.Atoi(rest)
			n[1] += count
			if isStart(last[:]...) {
				n[0] += count
			}
			last = [2]string{}
		} else if f := strings.Fields(line); len(f) > 1 {
			last = [2]string{last[1], f[1]}
		}
	}
	return n
}

// countPerf does the same for perf script: an address and a name for each frame, and an empty
// line after each sample.
func countPerf(b *bytes.Buffer) (n [2]int) {
	var last [2]string
	for line := range strings.Lines(b.String() + "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) > 1:
			last = [2]string{last[1], f[1]}
		case len(f) == 0 && last[1] != "":
			n[1]++
			if isStart(last[:]...) {
				n[0]++
			}
			last = [2]string{}
		}
	}
	return n
}
