package symbol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/procfs"
)

// WritePerfMap asks a HotSpot Java virtual machine, of JDK 17 or later, to write
// its perf map, which names its compiled code from then on (jcmd PID
// Compiler.perfmap, by the attach interface that jcmd uses). It has to run as the
// process's user, or as root. This acts on the process: it creates a file in the
// process's /tmp and sends it SIGQUIT, which a HotSpot VM answers by listening;
// other programs would end by it, so a process that does not map libjvm.so is
// refused. It waits for the answer until ctx is done.
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
	// The number may belong to another process by now, which SIGQUIT would end:
	// a pidfd that was opened before the start time was checked does not.
	fd, err := procfs.OpenPID(p.pid)
	if err != nil {
		return err
	}
	defer fd.Close()
	if st, err := procfs.ReadStat(p.ps.root, p.pid); err != nil || st.StartTime != p.start {
		return os.ErrProcessDone
	}
	conn, err := p.attachJVM(ctx, fd)
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
		return fmt.Errorf("the virtual machine answered %q: %s", code, bytes.TrimSpace(msg))
	}
	return nil
}

// attachJVM connects to the socket of the attach interface, and has the virtual
// machine open it first if it is not there.
func (p *Process) attachJVM(ctx context.Context, pidfd *os.File) (net.Conn, error) {
	nspid := procfs.NSpid(p.ps.root, p.pid)
	tmp := fmt.Sprintf("/proc/%d/root/tmp", p.pid)
	socket := fmt.Sprintf("%s/.java_pid%d", tmp, nspid)
	d := net.Dialer{}
	if conn, err := d.DialContext(ctx, "unix", socket); err == nil {
		return conn, nil
	}
	mark := fmt.Sprintf("%s/.attach_pid%d", tmp, nspid)
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer os.Remove(mark)
	err = f.Close()
	// The virtual machine wants the file to be its own user's.
	if err == nil {
		err = giveTo(p.pid, mark)
	}
	if err == nil {
		err = procfs.SendSignal(pidfd, syscall.SIGQUIT)
	}
	if err != nil {
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
		if conn, err := d.DialContext(ctx, "unix", socket); err == nil {
			return conn, nil
		}
	}
}

// giveTo makes a file the property of a process's user.
func giveTo(pid int, path string) error {
	st, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) == os.Geteuid() {
		return nil
	}
	return os.Lchown(path, int(sys.Uid), int(sys.Gid))
}
