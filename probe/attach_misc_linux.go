package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/probe/internal/perfevent"
)

// socket opens a packet socket on the interface and attaches the program to it, which
// then sees every packet in and out. Nothing reads from the socket: a filter that
// returns 0 keeps the packets out of it.
func (a *attacher) socket(prog *ebpf.Program, s *Site) error {
	t, ok := s.Target.(SocketFilter)
	if !ok {
		return fmt.Errorf("no socket for %s", s.Target)
	}
	index, err := kernel.InterfaceIndex(t.Interface)
	if err != nil {
		return notexist.Errorf("no interface %s%s", t.Interface,
			near.Hint(t.Interface, kernel.Interfaces()))
	}
	fd, err := kernel.PacketFilter(index, prog.FD())
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("it takes CAP_NET_RAW: %w", err)
	}
	if err != nil {
		return err
	}
	a.keep(held{fd: fd, method: MethodSocket}, *s)
	return nil
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
