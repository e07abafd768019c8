package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobodyFlag makes this program run another one as nobody: go test -exec calls it with a test
// binary.
const nobodyFlag = "-as-nobody"

const nobody = 65534

// asNobody runs a program without privileges and with no network but the loopback, and returns
// its exit code. Only root can read the go command's work directory, so the program is copied
// to a directory that the user nobody can read. The current directory does not change: it is
// inherited and needs no path.
func asNobody(argv []string) int {
	code, err := runAsNobody(argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "as nobody:", err)
		return 125
	}
	return code
}

func runAsNobody(argv []string) (code int, err error) {
	tmp, err := os.MkdirTemp("", "nobody")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	bin := filepath.Join(tmp, filepath.Base(argv[0]))
	err = errors.Join(noTelemetry(tmp), copyProgram(bin, argv[0]), os.Chown(tmp, nobody, nobody))
	if err != nil {
		return 0, err
	}
	// The namespace belongs to this thread and the child that it starts.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("new network namespace: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return 0, fmt.Errorf("loopback: %w", err)
	}
	cmd := exec.Command(bin, argv[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+tmp, "TMPDIR="+tmp, "GOCACHE="+filepath.Join(tmp, "cache"),
		"GOPROXY=off", "USER=nobody", "XDG_CACHE_HOME=", "XDG_CONFIG_HOME=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// noTelemetry turns the go command's telemetry off for a home directory. With it, the first go
// command of a user starts another one, which nobody waits for: it writes to the home directory
// when that may be removed already, and makes it again.
func noTelemetry(home string) error {
	dir := filepath.Join(home, ".config/go/telemetry")
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "mode"), []byte("off\n"), 0o644))
}

func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// loopbackUp brings 127.0.0.1 up, which is down in a new namespace.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr)
}
