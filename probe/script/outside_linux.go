package script

import (
	"os/exec"
	"syscall"
)

// endWithThread has the kernel end a command when the thread that starts it ends.
func endWithThread(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
