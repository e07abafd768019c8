//go:build !linux

package probe

import (
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
)

// attachPlan fails: probes exist on Linux only.
func attachPlan(*Plan, map[string]*ebpf.Program, *Env, *AttachOptions) (*Link, error) {
	return nil, &feature.UnsupportedError{
		Feature: "attach",
		Hint:    "probes are for Linux, this is " + runtime.GOOS,
	}
}

func tracingMultiType(*Env, *ebpf.Program, Target) ebpf.AttachType { return ebpf.AttachNone }

func (l *Link) release() error { return nil }

func (l *Link) stopped() ([]int, error) { return nil, errors.ErrUnsupported }

func (h *held) missed() (uint64, bool, error) { return 0, false, errors.ErrUnsupported }

func (l *Link) openIter() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

func (h *held) pin(string) error { return errors.ErrUnsupported }

func openPinnedLink(string) (held, error) { return held{}, errors.ErrUnsupported }

func (h *held) update(*ebpf.Program) error { return errors.ErrUnsupported }

func (h *held) file() (*os.File, error) { return nil, errors.ErrUnsupported }

func linkFromFile(*os.File) (held, error) { return held{}, errors.ErrUnsupported }

func (a *attacher) file(string) (string, error) { return "", errors.ErrUnsupported }
