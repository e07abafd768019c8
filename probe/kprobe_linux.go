package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// kprobeMulti attaches at many kernel functions with one link. If the kernel refuses
// them together, and the caller goes on without missing sites, it tries halves until
// the sites at fault are found.
func (a *attacher) kprobeMulti(g *ProgramPlan, prog *ebpf.Program, sites []Site) error {
	sites = uniqueAddresses(sites)
	if err := a.ended(sites); err != nil {
		return err
	}
	addrs := make([]uint64, len(sites))
	cookies := make([]uint64, len(sites))
	for i := range sites {
		addrs[i], cookies[i] = sites[i].Address, uint64(sites[i].Cookie)
	}
	var flags uint32
	if g.Returns && g.AttachType != ebpf.AttachTraceKprobeSession {
		flags = kernel.MultiReturn
	}
	fd, err := kernel.KprobeMulti(prog.FD(), uint32(g.AttachType), addrs, cookies, flags)
	if err == nil {
		a.keep(held{fd: fd, link: true, method: MethodKprobeMulti}, sites...)
		return nil
	}
	if len(sites) > 1 && a.o.Missing != MissingError && !errors.Is(err, syscall.EPERM) {
		h := len(sites) / 2
		if err := a.kprobeMulti(g, prog, sites[:h]); err != nil {
			return err
		}
		return a.kprobeMulti(g, prog, sites[h:])
	}
	return a.missing(&sites[0], fmt.Errorf("attach %s: %w", placeOf(sites), a.explainMulti(g, err)))
}

func (a *attacher) explainMulti(g *ProgramPlan, err error) error {
	f := feature.KprobeMulti
	if g.AttachType == ebpf.AttachTraceKprobeSession {
		f = feature.KprobeSession
	}
	if why := feature.Explain(f, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the program was not loaded with attach type %s, or a function is not traceable: %w", g.AttachType, err)
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("a function is not traceable: %w", err)
	}
	return err
}

// uniqueAddresses drops sites whose address occurred before: kprobe.multi refuses
// duplicates.
func uniqueAddresses(sites []Site) []Site {
	seen := make(map[uint64]bool, len(sites))
	out := make([]Site, 0, len(sites))
	for _, s := range sites {
		if !seen[s.Address] {
			seen[s.Address] = true
			out = append(out, s)
		}
	}
	return out
}

// tracefs attaches through an event made in tracefs, the only way to give a kretprobe
// its maxactive. The event outlives a killed process; the next process that makes such
// an event removes it.
func (a *attacher) tracefs(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	t, ok := s.Target.(Kretprobe)
	if !ok {
		return fmt.Errorf("no tracefs event for %s", s.Target)
	}
	dir, err := tracefs.Need(a.env.Root(), a.env.Live())
	if err != nil {
		return err
	}
	defer dir.Close()
	events := "/" + dir.Path + "/kprobe_events"
	tracefs.Sweep(events)
	// One process may hold several Links of a plan, so the name has the time in it.
	name := fmt.Sprintf("p%d_%d_%x", os.Getpid(), s.Cookie.Site(), time.Now().UnixNano())
	fn := s.Symbol
	if s.Module != "" {
		fn = s.Module + ":" + fn
	}
	line := fmt.Sprintf("r%d:%s/%s %s", t.MaxActive, tracefs.Group, name, fn)
	if err := tracefs.AppendLine(events, line); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return feature.Explain(feature.Kprobe, err)
		}
		return a.explainKprobe(s, err)
	}
	undo := func() error { return removeEvent(a.env, "kprobe_events", tracefs.Group+"/"+name) }
	if err := a.tracefsEvent(g, prog, s, path.Join("/", dir.Path, "events", tracefs.Group, name, "id"),
		undo); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

// tracefsEvent opens the event and attaches the program.
func (a *attacher) tracefsEvent(g *ProgramPlan, prog *ebpf.Program, s *Site, idFile string,
	undo func() error,
) error {
	id := readNumber(idFile)
	if id == 0 {
		return fmt.Errorf("%s: no id", idFile)
	}
	ev, err := a.anyCPU(&perfevent.Event{
		Attr: perfring.Attr{Type: perfring.EventTracepoint, Config: id, Sample: 1},
		Explain: func(err error) error {
			return a.explainKprobe(s, err)
		},
	})
	if err != nil {
		return err
	}
	via := *g
	via.Method = MethodPerfIoctl // the event must be closed before it can be removed: no second owner
	if err := a.perfEvent(&via, prog, s, ev); err != nil {
		return err
	}
	h := &a.link.held[len(a.link.held)-1]
	h.method, h.undo = MethodTracefs, undo
	return nil
}

// removeEvent removes an event from one of tracefs' lists.
func removeEvent(e *Env, list, name string) error {
	dir, err := tracefs.Need(e.Root(), e.Live())
	if err != nil {
		return err
	}
	defer dir.Close()
	return tracefs.AppendLine("/"+dir.Path+"/"+list, "-:"+name)
}

func readNumber(name string) uint64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := spelling.ParseNumber(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0
	}
	return n
}
