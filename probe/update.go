package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Update replaces the programs of the Link in place, by their names in the plan; programs
// not named stay. No event is lost or seen twice. The programs remain the caller's.
//
// Of the links that this package makes, the kernel can update those of iterators (Linux
// 5.8). Perf event, multi, trampoline and raw tracepoint links can't be updated up to
// Linux 7.2. The error is then an *UnsupportedError, and nothing has changed. For those
// links use package deploy, which makes programs replaceable when it attaches. Or attach
// the new programs before this Link is closed; both then see the events in between.
func (l *Link) Update(progs map[string]*ebpf.Program) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.errClosed("update")
	}
	old := map[string]*ebpf.Program{}
	for i, name := range l.names {
		old[name] = l.progs[i]
	}
	for name := range progs {
		if old[name] == nil {
			return fmt.Errorf("update: the link has no program %s", name)
		}
	}
	var done []*held
	for i := range l.held {
		h := &l.held[i]
		if progs[h.prog] == nil {
			continue
		}
		if err := h.update(progs[h.prog]); err != nil {
			for _, d := range done {
				err = errors.Join(err, d.update(old[d.prog]))
			}
			return fmt.Errorf("update %s: %w", l.siteName(h), err)
		}
		done = append(done, h)
	}
	return l.adopt(progs)
}

// siteName returns the name of what a held object serves.
func (l *Link) siteName(h *held) string {
	if h.first < len(l.sites) {
		return l.sites[h.first].Target.String()
	}
	return "link"
}

// adopt keeps the new programs for statistics, instead of the old.
func (l *Link) adopt(progs map[string]*ebpf.Program) error {
	for i, name := range l.names {
		if progs[name] == nil {
			continue
		}
		c, err := progs[name].Clone()
		if err != nil {
			return fmt.Errorf("update: %w", err)
		}
		l.progs[i].Close()
		l.progs[i] = c
	}
	return nil
}
