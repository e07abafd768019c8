package guest

import (
	"os/exec"
	"syscall"
)

// endWithParent makes a guest end when the process that waits for it is killed. Otherwise it
// would run to its end without a reader of its output.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
