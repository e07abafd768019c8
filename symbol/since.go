package symbol

import (
	"math"
	"slices"

	"github.com/borescope/borescope/internal/notexist"
)

// Since returns what the process that had a number at a time, in nanoseconds of CLOCK_MONOTONIC, mapped
// from then on, until it executed another program or ended, or until now: for addresses of which it is
// known that they were sampled then, but not when. Those where the process mapped one file and then another
// have no names, nor those of a process that was not seen. Where events are missing, what was mapped before
// and afterwards is taken to have been there. The error is that of Process, and wraps fs.ErrNotExist if the
// process at that time was not seen.
//
// It is for processes that are followed (Follow): of others it is not known what they were.
func (ps *Processes) Since(pid int, at uint64) (State, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.had(pid, at)
	if err != nil {
		return State{}, err
	}
	end := uint64(math.MaxUint64)
	if i, _ := slices.BinarySearch(p.life.execs, at+1); i < len(p.life.execs) {
		end = p.life.execs[i] - 1
	}
	return State{p: p, from: p.life.bound(at), to: p.life.bound(end), since: true}, nil
}

// had returns the process that had a number at a time.
func (ps *Processes) had(pid int, at uint64) (*Process, error) {
	latest, err := ps.process(pid, refreshAfter)
	if latest != nil && latest.lived(at) {
		return latest, nil
	}
	var p *Process
	for key, q := range ps.gone {
		if key.pid == pid && q.lived(at) && (p == nil || key.start > p.start) {
			p = q
		}
	}
	switch {
	case p != nil:
		return p, nil
	case ps.followed != 0:
		if p = ps.told(pid, ps.nextFork(pid, at)); p.lived(at) && len(p.maps) > 0 {
			ps.tick++
			ps.recent(p)
			return p, nil
		}
		p.forget()
	}
	if err == nil {
		err = notexist.Errorf("the process that had the number %d at %d ns was not seen", pid, at)
	}
	return nil, err
}

// lived reports whether the process may have been there at a time.
func (p *Process) lived(at uint64) bool {
	return !p.after(at) && (p.life.ended == 0 || at <= p.life.ended)
}

// nextFork returns the last time before another process got a number, after a time.
func (ps *Processes) nextFork(pid int, at uint64) uint64 {
	for i := range ps.earlier {
		if ev := ps.earlierAt(i); ev.Kind == EventFork && ev.PID == pid && ev.Time > at {
			return ev.Time - 1
		}
	}
	return timeless
}
