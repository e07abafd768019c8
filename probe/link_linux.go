package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
)

// release closes everything, in the reverse order of opening. The caller holds mu.
func (l *Link) release() error {
	runtime.SetFinalizer(l, nil)
	var errs []error
	for _, prog := range l.ends {
		if _, err := kernel.TestRun(prog.FD(), nil); err != nil {
			errs = append(errs, fmt.Errorf("run end: %w", err))
		}
	}
	for _, c := range l.clocks {
		errs = append(errs, kernel.Close(c.fd))
	}
	errs = append(errs, closeHeld(l.held))
	for i := len(l.progs) - 1; i >= 0; i-- {
		errs = append(errs, l.progs[i].Close())
	}
	l.held, l.progs, l.ends, l.clocks = nil, nil, nil, nil
	return errors.Join(errs...)
}

// clockStands is how long an event's time may stand still; the coarsest kernel clocks
// advance every 10 ms.
const clockStands = 30 * time.Millisecond

// stopped returns the CPUs whose clocks stand still. The caller holds mu.
func (l *Link) stopped() ([]int, error) {
	before, err := l.times()
	if err != nil {
		return nil, err
	}
	cpus, err := l.standing(before)
	if err == nil && len(cpus) > 0 {
		time.Sleep(clockStands)
		cpus, err = l.standing(before)
	}
	return cpus, err
}

// standing returns the CPUs whose clocks are where they were before.
func (l *Link) standing(before []uint64) (cpus []int, err error) {
	now, err := l.times()
	for i := range now {
		if now[i] == before[i] {
			cpus = append(cpus, l.clocks[i].cpu)
		}
	}
	return cpus, err
}

// times reads all clocks.
func (l *Link) times() ([]uint64, error) {
	out := make([]uint64, len(l.clocks))
	for i, c := range l.clocks {
		var err error
		if out[i], err = kernel.EnabledTime(c.fd); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// closeHeld closes what a Link holds.
func closeHeld(list []held) error {
	closers := make([]func() error, len(list))
	for i := range list {
		closers[i] = list[i].close
	}
	return kernel.CloseAll(closers)
}

func (h *held) close() error {
	var err error
	if h.fd >= 0 {
		err = kernel.Close(h.fd)
	}
	if h.undo != nil {
		err = errors.Join(err, h.undo())
	}
	return err
}

// missed asks the kernel how many events a bpf_link missed.
func (h *held) missed() (n uint64, known bool, err error) {
	info, err := kernel.Info(h.fd)
	if err != nil {
		return 0, false, err
	}
	return info.Missed, info.MissedKnown, nil
}

// openIter starts a run of the first iterator that the Link holds.
func (l *Link) openIter() (io.ReadCloser, error) {
	for i := range l.held {
		if h := &l.held[i]; h.method == MethodIter {
			f, err := kernel.OpenIter(h.fd)
			if err != nil {
				return nil, fmt.Errorf("open iterator: %w", err)
			}
			return f, nil
		}
	}
	return nil, errors.New("open iterator: the link holds none")
}

func (h *held) pin(name string) error { return kernel.Pin(h.fd, name) }

func openPinnedLink(name string) (held, error) {
	fd, err := kernel.OpenPinned(name)
	return held{fd: fd, link: true}, err
}

// file duplicates a bpf_link's descriptor.
func (h *held) file() (*os.File, error) {
	fd, err := kernel.Dup(h.fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "bpf_link"), nil
}

// linkFromFile returns the link that a file returned by Files refers to.
func linkFromFile(f *os.File) (held, error) {
	fd, err := kernel.Dup(int(f.Fd()))
	if err != nil {
		return held{}, err
	}
	if _, err := kernel.Info(fd); err != nil {
		return held{}, errors.Join(fmt.Errorf("%s is not a bpf_link: %w", f.Name(), err), kernel.Close(fd))
	}
	return held{fd: fd, link: true}, nil
}

// update replaces the program of a bpf_link.
func (h *held) update(prog *ebpf.Program) error {
	if !h.link {
		return &feature.UnsupportedError{
			Feature: "replacing a program attached by " + h.method.String(), Err: errors.ErrUnsupported,
			Hint: "no bpf_link owns it: attach the new program, then close this Link",
		}
	}
	err := kernel.UpdateLink(h.fd, prog.FD())
	// link_update of kernel/bpf/syscall.c: EINVAL where the type has no update_prog.
	if errors.Is(err, syscall.EINVAL) {
		return &feature.UnsupportedError{
			Feature: "replacing the program of a " + h.method.String() + " link", Err: err,
			Hint: "the kernel does so for iterators only: use deploy.Deploy, or attach the new program, then close this Link",
		}
	}
	return err
}
