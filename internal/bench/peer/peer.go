// Package peer builds and ends the tools that the benchmarks compare.
package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Interrupt interrupts cmd as Ctrl-C does, and waits for its end; ended receives the result
// of its Wait. It interrupts again if cmd goes on, as bpftrace 0.17 does if it is outside of
// epoll_wait at the signal. It kills a process that does not end within ten seconds, and
// returns an error.
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

// BuildProfile builds examples/profile in a directory, and returns the file's path.
func BuildProfile(dir string) (string, error) {
	path := filepath.Join(dir, "profile")
	if out, err := exec.Command("go", "build", "-o", path,
		"github.com/borescope/borescope/examples/profile").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build examples/profile: %w\n%s", err, out)
	}
	return path, nil
}
