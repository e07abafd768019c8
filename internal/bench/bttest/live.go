package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// asBpftrace are the flags with which bt does what bpftrace does without them: events of bt itself fire,
// too, and text of traced processes is printed as it is.
const asBpftrace = " -include-self -raw"

// attachTimeout is the time until the probes are attached.
const attachTimeout = 10 * time.Second

// attached are the lines that say so: bt's, and the one that the suite's cases may print themselves.
var attached = regexp.MustCompile(`^(__BPFTRACE_NOTIFY_PROBES_ATTACHED|Attached \d+ probes?|\{"type": "attached_probes".*)$`)

const notification = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

// result is what came of a case's command.
type result struct {
	output   string
	attached bool
	timedOut bool
	status   int
	trouble  string // why it was not run, or what remained
}

// runner runs cases, one at a time.
type runner struct {
	dir  string        // of the suite
	slow time.Duration // factor of all times: emulated machines are slow
}

// run runs a case, and leaves no process behind.
func (r *runner) run(c *testCase) (res result) {
	defer func() {
		if err := killAll(); err != nil && res.trouble == "" {
			res.trouble = err.Error()
		}
		if c.cleanup != "" {
			if err := r.shell(c.cleanup); err != nil && res.trouble == "" {
				res.trouble = "CLEANUP: " + err.Error()
			}
		}
	}()
	if c.setup != "" {
		if err := r.shell(c.setup); err != nil {
			return result{trouble: "SETUP: " + err.Error()}
		}
	}
	within, err := r.before(c)
	if err != nil {
		return result{trouble: "BEFORE: " + err.Error()}
	}
	line := within + c.command(filepath.Join(r.dir, "bin/bpftrace")+asBpftrace)
	if len(c.befores) > 0 && strings.Contains(line, "{{BEFORE_PID}}") {
		pid := 0
		words := strings.Fields(c.befores[0])
		for _, p := range descendants(os.Getpid()) {
			if p.named("pidof", words[len(words)-1]) {
				pid = p.pid
			}
		}
		line = strings.ReplaceAll(line, "{{BEFORE_PID}}", strconv.Itoa(pid))
	}
	return r.command(c, line, within)
}

// environ is the environment of everything.
func (r *runner) environ(c *testCase) []string {
	return append([]string{
		"PATH=" + filepath.Join(r.dir, "bin") + ":" + os.Getenv("PATH"),
		rootVar + "=" + strconv.Itoa(os.Getpid()), "test=" + c.name, notification + "=1",
	}, c.env...)
}

// start starts a command in a session of its own.
func (r *runner) start(c *testCase, out *os.File, argv ...string) (*exec.Cmd, error) {
	cmd := r.prepare(c, argv...)
	if out != nil {
		cmd.Stdout, cmd.Stderr = out, out
	}
	if stopped.Load() {
		return nil, context.Canceled
	}
	return cmd, cmd.Start()
}

// prepare returns a command in a session of its own, which ends with this program.
func (r *runner) prepare(c *testCase, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = r.dir, r.environ(c)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// stopped says that the run was ended: nothing is started any more.
var stopped atomic.Bool

// shell runs a line, and returns an error if that fails.
func (r *runner) shell(line string) error {
	var out bytes.Buffer
	cmd := r.prepare(&testCase{}, shellLine(line)...)
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = &out, &out
	if stopped.Load() {
		return context.Canceled
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := time.AfterFunc(attachTimeout*r.slow, func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer stop.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w %s", err, strings.TrimSpace(readable(out.Bytes())))
	}
	return nil
}

// before starts what runs beside a case, and waits until it has the names that it must. It returns what
// has to stand before a command to run in the namespace of the first of them.
func (r *runner) before(c *testCase) (within string, err error) {
	for i, b := range c.befores {
		words := strings.Fields(b)
		if !c.newPIDNS {
			cmd, err := r.start(c, nil, words...)
			if err != nil {
				return "", err
			}
			name := cut(filepath.Base(words[len(words)-1]))
			if !eventually(c.timeout*r.slow, func() bool {
				comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
				return err == nil && strings.TrimSpace(string(comm)) == name
			}) {
				return "", fmt.Errorf("%s did not become %s", b, name)
			}
			continue
		}
		argv := append(strings.Fields(within), r.absolute(words)...)
		if i == 0 {
			argv = append(strings.Fields("unshare --fork --pid --mount-proc -r --kill-child --"), words...)
		}
		cmd, err := r.start(c, nil, argv...)
		if err != nil {
			return "", err
		}
		child := 0
		name := cut(filepath.Base(words[0]))
		if !eventually(c.timeout*r.slow, func() bool {
			for _, p := range descendants(cmd.Process.Pid) {
				if child = p.pid; p.comm == name {
					return true
				}
			}
			return false
		}) {
			return "", fmt.Errorf("%s did not start", b)
		}
		if i == 0 {
			within = fmt.Sprintf("nsenter -p -m -t %d ", child)
		}
	}
	return within, nil
}

func (r *runner) absolute(words []string) []string {
	var abs []string
	for _, w := range words {
		if strings.Contains(w, "/") && !filepath.IsAbs(w) {
			w = filepath.Join(r.dir, w)
		}
		abs = append(abs, w)
	}
	return abs
}

// mostOutput is the number of bytes of output that are kept.
const mostOutput = 8 << 20

// command runs the line of a case to its end, or to that of its time.
func (r *runner) command(c *testCase, line, within string) (res result) {
	from, to, err := os.Pipe()
	if err != nil {
		return result{trouble: err.Error()}
	}
	defer from.Close() // ends the reader, too
	cmd, err := r.start(c, to, shellLine(line)...)
	to.Close()
	if err != nil {
		return result{trouble: err.Error()}
	}
	lines, stop := make(chan []byte), make(chan struct{})
	defer close(stop)
	go readLines(from, lines, stop)
	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait() }()
	var out []byte
	var after *exec.Cmd
	timer := time.NewTimer(attachTimeout * r.slow)
	defer timer.Stop()
	exited, killed := false, false
	for open := true; open || !exited; {
		select {
		case l, ok := <-lines:
			if !ok {
				open, lines = false, nil
				break
			}
			if len(out) < mostOutput {
				out = append(out, l...)
			}
			text := string(bytes.TrimRight(l, "\n"))
			if !attached.MatchString(text) {
				break
			}
			if c.exact() && (!res.attached || text == notification) {
				out = nil // only what follows counts
			}
			if res.attached {
				break
			}
			res.attached = true
			timer.Reset(c.timeout * r.slow)
			if c.after != "" {
				if after, err = r.start(c, nil, r.afterArgs(c, within)...); err != nil {
					res.trouble = "AFTER: " + err.Error()
				}
			}
		case <-exit:
			exited = true
			if !killed {
				timer.Reset(time.Second * r.slow) // for what it has left behind, which holds the pipe
			}
		case <-timer.C:
			switch {
			case killed:
				res.trouble = "it does not end"
				open, exited = false, true
			case !exited && !res.timedOut:
				res.timedOut = true
				unix.Kill(-cmd.Process.Pid, unix.SIGTERM)
				timer.Reset(time.Second * r.slow)
			default:
				killed = true
				for _, p := range descendants(os.Getpid()) {
					unix.Kill(p.pid, unix.SIGKILL)
				}
				timer.Reset(5 * time.Second * r.slow)
			}
		}
	}
	if c.exact() && !res.attached {
		out = withoutWarnings(out)
	}
	res.output = readable(out)
	if cmd.ProcessState != nil {
		res.status = cmd.ProcessState.ExitCode() // -1: by a signal
	}
	if after != nil {
		// Its children go with the rest.
		after.Process.Kill()
		after.Wait()
	}
	return res
}

// withoutWarnings returns what follows the lines that are no JSON: with -q, bt does not say when what
// precedes the attachment is over, and that are the warnings of the compiler.
func withoutWarnings(out []byte) []byte {
	for len(out) > 0 && out[0] != '{' {
		_, out, _ = bytes.Cut(out, []byte("\n"))
	}
	return out
}

// readLines sends the lines of a pipe until it ends, or nobody wants them.
func readLines(from io.Reader, lines chan<- []byte, stop <-chan struct{}) {
	defer close(lines)
	for b := bufio.NewReader(from); ; {
		line, err := b.ReadBytes('\n')
		if len(line) > 0 {
			select {
			case lines <- line:
			case <-stop:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *runner) afterArgs(c *testCase, within string) []string {
	if c.newPIDNS {
		return append(strings.Fields(within), r.absolute(strings.Fields(c.after))...)
	}
	return shellLine(c.after)
}

// shellLine has a shell run a line. The suite is written for machines whose sh is bash, which for example
// does not write a backslash and n as the end of a line.
func shellLine(line string) []string { return []string{"bash", "--posix", "-c", line} }
