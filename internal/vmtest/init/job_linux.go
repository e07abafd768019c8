package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/vmtest/wire"
)

// runJob runs a job and reports its outcome.
func runJob(i int, j wire.Job) {
	before := kernelObjects()
	warnings := openKmsg()
	fmt.Println(wire.Begin, i, j.Name)
	start := time.Now()
	status := runProcess(j)
	took := time.Since(start)
	for _, w := range warnings() {
		fmt.Println(wire.Warn, i, w)
	}
	for _, what := range leftBehind(before) {
		fmt.Println(wire.Left, i, what)
	}
	fmt.Printf("%s %d %s %.3f\n", wire.End, i, status, took.Seconds())
}

// runProcess returns "0" for success, "exit:N", "signal:NAME" or "timeout".
func runProcess(j wire.Job) string {
	name := j.Argv[0]
	if j.Chroot != "" && !strings.Contains(name, "/") {
		// env looks it up in the job's own root, not in the guest's.
		name = "/usr/bin/env"
		j.Argv = append([]string{name}, j.Argv...)
	}
	// A name without a slash is looked up in the job's PATH.
	for _, e := range j.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			os.Setenv("PATH", path)
		}
	}
	cmd := exec.Command(name, j.Argv[1:]...)
	cmd.Dir, cmd.Env = j.Dir, j.Env
	os.MkdirAll(j.Chroot+j.Dir, 0o755)
	if j.Chroot != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.Chroot}
	}
	// A grandchild that keeps the pipe open must not delay the guest.
	cmd.WaitDelay = 2 * time.Second
	out := &lineWriter{w: os.Stdout}
	defer out.flush()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(out, err)
		return "exit:127"
	}
	var timedOut atomic.Bool
	quit := time.AfterFunc(j.Timeout, func() {
		timedOut.Store(true)
		cmd.Process.Signal(syscall.SIGQUIT)
	})
	kill := time.AfterFunc(j.Timeout+5*time.Second, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	quit.Stop()
	kill.Stop()
	return describe(err, cmd.ProcessState, timedOut.Load())
}

func describe(err error, s *os.ProcessState, timedOut bool) string {
	if timedOut {
		return "timeout"
	}
	ws, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		return "signal:" + unix.SignalName(ws.Signal())
	case s.ExitCode() != 0:
		return fmt.Sprintf("exit:%d", s.ExitCode())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "exit:1"
	}
	return "0"
}

// lineWriter writes whole lines with one write each, so that the kernel's output on the same
// console comes between lines and not inside them.
type lineWriter struct {
	w   io.Writer
	buf []byte
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.buf = append(l.buf, b...)
	if i := bytes.LastIndexByte(l.buf, '\n'); i >= 0 {
		if _, err := l.w.Write(l.buf[:i+1]); err != nil {
			return 0, err
		}
		l.buf = append(l.buf[:0], l.buf[i+1:]...)
	}
	return len(b), nil
}

// flush writes an unfinished line with a newline, so that the next report starts a line.
func (l *lineWriter) flush() {
	if len(l.buf) > 0 {
		l.w.Write(append(l.buf, '\n'))
		l.buf = nil
	}
}

// openKmsg starts reading the kernel's log. The returned function returns the warnings since
// then. They are not on the console, which is quiet.
func openKmsg() func() []string {
	f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return func() []string { return []string{err.Error()} }
	}
	fd := int(f.Fd())
	unix.Seek(fd, 0, io.SeekEnd)
	return func() []string {
		defer f.Close()
		var found []string
		buf := make([]byte, 8192)
		for {
			n, err := unix.Read(fd, buf)
			if err == unix.EPIPE { // overwritten before it was read: read on
				continue
			}
			if err != nil || n <= 0 {
				return found
			}
			_, text, _ := strings.Cut(string(buf[:n]), ";")
			text, _, _ = strings.Cut(text, "\n")
			if alarming(text) {
				found = append(found, text)
			}
		}
	}
}

// alarming reports whether a line is the headline of a kernel problem.
func alarming(line string) bool {
	for _, s := range []string{
		"WARNING: ", "BUG: ", "Oops", "general protection fault", "INFO: task ",
		"INFO: rcu", "rcu: INFO", "Unable to handle", "soft lockup", "refcount_t:",
	} {
		if strings.Contains(line, s) {
			return true
		}
	}
	return false
}

// objects contains the ids of objects that a tracer can leave in the kernel. Nothing else runs
// in a guest, so all new objects after a job are the job's.
type objects map[string][]string

func kernelObjects() objects {
	o := objects{
		"BPF program": bpfIDs(unix.BPF_PROG_GET_NEXT_ID),
		"BPF map":     bpfIDs(unix.BPF_MAP_GET_NEXT_ID),
		"BPF link":    bpfIDs(unix.BPF_LINK_GET_NEXT_ID),
	}
	for _, name := range []string{"kprobe_events", "uprobe_events"} {
		o[name] = lines("/sys/kernel/tracing/" + name)
	}
	o["pin"] = dirNames("/sys/fs/bpf")
	return o
}

func lines(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var ls []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		ls = append(ls, sc.Text())
	}
	return ls
}

func dirNames(path string) []string {
	var names []string
	es, _ := os.ReadDir(path)
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names
}

// leftBehind returns the objects that exist now and did not before. It waits up to four
// seconds, because the kernel frees programs and maps after a grace period.
func leftBehind(before objects) []string {
	var left []string
	for range 40 {
		left = nil
		for kind, now := range kernelObjects() {
			for _, x := range now {
				if !slices.Contains(before[kind], x) {
					left = append(left, kind+" "+x)
				}
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	slices.Sort(left)
	return left
}

// sendOut writes the files below /out as a tar archive to a block device.
func sendOut(device string) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS("/out")); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Sync()
}
