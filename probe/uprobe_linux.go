package probe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/notexist"
)

// uprobeMulti attaches at the sites of each file and process with one link.
func (a *attacher) uprobeMulti(g *ProgramPlan, prog *ebpf.Program) error {
	type key struct {
		path string
		pid  int
		refs bool
	}
	groups := map[key][]Site{}
	var order []key
	for _, s := range g.Sites {
		k := key{s.Path, s.PID, s.RefCtrOffset != 0}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], s)
	}
	for _, k := range order {
		if err := a.uprobeFile(g, prog, groups[k]); err != nil {
			return err
		}
	}
	return nil
}

func (a *attacher) uprobeFile(g *ProgramPlan, prog *ebpf.Program, sites []Site) error {
	offsets := make([]uint64, len(sites))
	cookies := make([]uint64, len(sites))
	var refs []uint64
	for i := range sites {
		offsets[i], cookies[i] = sites[i].Offset, uint64(sites[i].Cookie)
		if sites[i].RefCtrOffset != 0 {
			refs = append(refs, sites[i].RefCtrOffset)
		}
	}
	var flags uint32
	if g.returnProbe() {
		flags = kernel.MultiReturn
	}
	first := &sites[0]
	if err := a.ended(sites); err != nil {
		return err
	}
	path, err := a.file(first.Path)
	if err != nil {
		return a.missing(first, fmt.Errorf("attach %s: %w", placeOf(sites), err))
	}
	fd, err := kernel.UprobeMulti(prog.FD(), uint32(g.AttachType), path, offsets, refs, cookies,
		first.PID, flags)
	if err == nil {
		a.keep(held{fd: fd, link: true, method: MethodUprobeMulti}, sites...)
		return nil
	}
	if len(sites) > 1 && a.o.Missing != MissingError {
		h := len(sites) / 2
		if err := a.uprobeFile(g, prog, sites[:h]); err != nil {
			return err
		}
		return a.uprobeFile(g, prog, sites[h:])
	}
	return a.missing(first,
		fmt.Errorf("attach %s: %w", placeOf(sites), a.explainUprobeMulti(g, first, err)))
}

func (a *attacher) explainUprobeMulti(g *ProgramPlan, s *Site, err error) error {
	f := feature.UprobeMulti
	if g.AttachType == AttachUprobeSession {
		f = feature.UprobeSession
	}
	if why := feature.Explain(f, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.ESRCH):
		return notexist.Errorf("no process %d", s.PID)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf(
			"the program was not loaded with attach type %s, or the file's system takes no uprobes: %w",
			strings.ToLower(attachTypeName(g.AttachType)), err)
	}
	return err
}
