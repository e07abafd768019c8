//go:build !linux

package guest

import "os/exec"

func endWithParent(*exec.Cmd) {}
