package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// bareFlag makes this program run a command on this machine without anything that a user need
// not have installed or mounted.
const bareFlag = "-bare"

// bareTools lists the programs of such a machine besides Go: git, a shell, coreutils, grep,
// sed and find.
const bareTools = `go git sh grep sed find
	[ basename cat chgrp chmod chown cksum comm cp csplit cut date dd df dir dirname du echo env expand expr factor false
	fmt fold groups head hostid id install join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc
	numfmt od paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir sha1sum sha256sum sha512sum shred
	shuf sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname
	unexpand uniq unlink users wc who whoami yes`

// onBareMachine replaces this process by the command, in a mount namespace without tracefs,
// bpffs and debugfs, with only bareTools in PATH and without cgo. argv[0] is the directory for
// links to the tools.
func onBareMachine(argv []string) error {
	dir, argv := argv[0], argv[1:]
	for _, name := range strings.Fields(bareTools) {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil && !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	runtime.LockOSThread() // the namespace belongs to this thread and the command
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new namespace of mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := testenv.Unmount("tracefs", "bpf", "debugfs"); err != nil {
		return err
	}
	os.Setenv("PATH", dir)
	os.Setenv("CGO_ENABLED", "0")
	return syscall.Exec(filepath.Join(dir, argv[0]), argv, os.Environ())
}
