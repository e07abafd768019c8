package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command run in its own process group, and end with this process.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// endGroup kills the processes that the command started and left running: a killed go command
// does not end its tests, and a killed test not all processes that it started.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually none is left
	}
}
