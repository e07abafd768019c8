// Package peer ends the tools that the comparisons run.
package peer

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Interrupt ends cmd, whose Wait's result ended receives, as Ctrl-C does. It
// interrupts again what goes on, as bpftrace 0.17 does where the signal finds it
// outside of epoll_wait; what does not end within ten seconds is killed, and is the
// error.
func Interrupt(cmd *exec.Cmd, ended <-chan error) error {
	for range 5 {
		cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
			return nil
		case <-time.After(2 * time.Second):
		}
	}
	cmd.Process.Kill()
	<-ended
	return fmt.Errorf("%s did not end when it was interrupted", cmd.Path)
}
