package symbol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/procfs"
)

// WritePerfMap asks a HotSpot Java virtual machine, JDK 17 or later, to write its perf map,
// from which its compiled code is named afterwards. It uses the attach interface, as jcmd
// PID Compiler.perfmap does, and waits for the answer until ctx is done. The caller must
// run as the process's user or as root; root accesses the process's files with the rights
// of that user only.
//
// WritePerfMap changes the process: it creates a file in the process's /tmp and sends
// SIGQUIT, on which a HotSpot VM starts to listen. SIGQUIT would end other programs, so a
// process that does not map libjvm.so is refused.
func (p *Process) WritePerfMap(ctx context.Context) error {
	if err := p.writePerfMap(ctx); err != nil {
		return fmt.Errorf("perf map of process %d: %w", p.pid, err)
	}
	return nil
}

func (p *Process) writePerfMap(ctx context.Context) error {
	p.ps.mu.Lock()
	live := p.ps.live && !p.exited
	jvm := false
	for i := range p.maps {
		jvm = jvm || strings.HasSuffix(p.maps[i].path, "/libjvm.so")
	}
	p.ps.mu.Unlock()
	switch {
	case !live:
		return os.ErrProcessDone
	case !jvm:
		return errors.New("not a HotSpot Java virtual machine")
	}
	// The pid may belong to another process by now, which SIGQUIT would end. A pidfd that was
	// opened before the start time was checked can't.
	fd, err := procfs.OpenPID(p.pid)
	if err != nil {
		return err
	}
	defer fd.Close()
	j, err := openJVM(p.ps.root, p.pid, fd)
	if err != nil {
		return err
	}
	defer j.tmp.Close()
	if st, err := procfs.ReadStat(p.ps.root, p.pid); err != nil || st.StartTime != p.start {
		return os.ErrProcessDone
	}
	var conn *os.File
	err = procfs.As(j.user, func() (err error) {
		conn, err = j.attach(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// Protocol version, command, three arguments, each ended by NUL:
	// src/hotspot/os/posix/attachListener_posix.cpp.
	if _, err := conn.Write([]byte("1\x00jcmd\x00Compiler.perfmap\x00\x00\x00")); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if err != nil {
		return err
	}
	code, msg, _ := bytes.Cut(answer, []byte("\n"))
	if string(code) != "0" {
		return fmt.Errorf("the virtual machine answered %.40q: %.400q", code, bytes.TrimSpace(msg))
	}
	return nil
}

// jvm is the place of a virtual machine's attach interface. The process controls all of it: it
// may have mounted anything over /tmp, or replace its files at any time. So files are made,
// looked up and removed there with the process's own rights, in a directory that is kept open.
type jvm struct {
	pid          *os.File // of procfs.OpenPID
	tmp          *os.File // O_PATH
	user         procfs.User
	mark, socket string // names in tmp
}

func openJVM(root fs.FS, pid int, pidfd *os.File) (*jvm, error) {
	nspid := procfs.NSpid(root, pid)
	j := &jvm{
		pid: pidfd, mark: fmt.Sprintf(".attach_pid%d", nspid),
		socket: fmt.Sprintf(".java_pid%d", nspid),
	}
	var err error
	if err = procfs.Unprivileged(root, pid); err != nil {
		return nil, err
	}
	if j.user, err = procfs.UserOf(root, pid); err != nil {
		return nil, err
	}
	j.tmp, err = procfs.OpenPath(fmt.Sprintf("/proc/%d/root/tmp", pid), false)
	return j, err
}

// attach connects to the socket of the attach interface. If there is none, it makes the virtual
// machine open it first.
func (j *jvm) attach(ctx context.Context) (*os.File, error) {
	if conn, err := j.dial(ctx); err == nil {
		return conn, nil
	}
	tmp, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", j.tmp.Fd()))
	if err != nil {
		return nil, err
	}
	defer tmp.Close()
	f, err := tmp.OpenFile(j.mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	defer tmp.Remove(j.mark)
	if err := procfs.SendSignal(j.pid, syscall.SIGQUIT); err != nil {
		return nil, err
	}
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.C:
		}
		if conn, err := j.dial(ctx); err == nil {
			return conn, nil
		}
	}
}

// dial connects to the socket. It follows no links: they might lead to another service, which
// would take this process's user for its client's.
func (j *jvm) dial(ctx context.Context) (*os.File, error) {
	s, err := procfs.SocketIn(j.tmp, j.socket, j.user.UID)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	fd, err := syscall.Socket(syscall.AF_UNIX,
		syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	conn := os.NewFile(uintptr(fd), j.socket) // with deadlines, because it does not block
	for {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{
			Name: fmt.Sprintf("/proc/self/fd/%d", s.Fd()),
		})
		if !errors.Is(err, syscall.EAGAIN) { // too many others wait to be accepted
			break
		}
		select {
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err != nil {
		conn.Close()
		return nil, os.NewSyscallError("connect", err)
	}
	return conn, nil
}
