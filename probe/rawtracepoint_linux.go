package probe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
)

func (a *attacher) rawTracepoint(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	cookie := uint64(s.Cookie)
	if cookie != 0 && !has(a.env, feature.RawTracepointCookie) {
		cookie = 0
	}
	fd, err := kernel.RawTracepoint(prog.FD(), s.Symbol, cookie)
	if err != nil {
		return a.explainRaw(g, s, err)
	}
	a.keep(held{fd: fd, link: true, method: MethodRawTracepoint}, *s)
	return nil
}

func (a *attacher) explainRaw(g *ProgramPlan, s *Site, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return noRaw(a.env, s.Module, s.Symbol)
	case errors.Is(err, syscall.EINVAL) && g.Sleepable():
		return fmt.Errorf("%s: %w", onlySyscalls, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the program reads more arguments than the tracepoint has: %w", err)
	}
	return feature.Explain(feature.RawTracepoint, err)
}
