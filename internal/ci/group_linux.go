package main

import (
	"os/exec"
	"syscall"
)

// ownGroup has the command run in a process group of its own, and end with this
// process.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// endGroup ends what the command started and left: a go command that is killed ends
// no test, and a killed test not all that it started.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly nothing is left
	}
}
