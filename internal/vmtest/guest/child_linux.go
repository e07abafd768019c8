package guest

import (
	"os/exec"
	"syscall"
)

// endWithParent has a guest end when whoever waits for it is killed, instead of
// running to its own end with nobody to read what it says.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
