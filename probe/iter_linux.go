package probe

import (
	"errors"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/notexist"
)

func (a *attacher) iter(prog *ebpf.Program, s *Site) error {
	var task *kernel.IterTask
	if s.PID != 0 {
		// The kernel looks only when the iterator is read, and then finds nothing.
		if errors.Is(syscall.Kill(s.PID, 0), syscall.ESRCH) {
			return notexist.Errorf("no process %d", s.PID)
		}
		task = &kernel.IterTask{PID: uint32(s.PID)}
	}
	fd, err := kernel.Iter(prog.FD(), task)
	if err != nil {
		if task != nil && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.E2BIG)) {
			return &feature.UnsupportedError{
				Feature: "iterator with a pid", Since: "6.1", Err: err,
				Hint: "Linux " + a.env.Release() +
					" iterates over all tasks only: compare the pid in the program",
			}
		}
		return feature.Explain(feature.Iter, err)
	}
	a.keep(held{fd: fd, link: true, method: MethodIter}, *s)
	return nil
}
