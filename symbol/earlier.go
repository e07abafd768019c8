package symbol

import (
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/procfs"
)

// maxEarlier is how many events are kept of processes that were not asked for yet.
const maxEarlier = 4096

// remember keeps an event of a process that was not asked for: samples may be on their way that were
// taken before it.
func (ps *Processes) remember(ev *Event) {
	if len(ps.earlier) < maxEarlier {
		ps.earlier = append(ps.earlier, *ev)
		return
	}
	ps.earlier[ps.nextEarlier] = *ev
	ps.nextEarlier = (ps.nextEarlier + 1) % maxEarlier
}

// recalled returns a process that ended before it was asked for, as its events describe it; nil if there
// are none.
func (ps *Processes) recalled(pid int) *Process {
	if ps.followed == 0 {
		return nil
	}
	p := ps.told(pid, timeless)
	if len(p.maps) == 0 {
		return nil
	}
	ps.tick++
	ps.recent(p)
	return p
}

// told returns a process as the events until a time describe it. It is not kept.
func (ps *Processes) told(pid int, until uint64) *Process {
	p := &Process{ps: ps, pid: pid, exited: true, user: procfs.Anybody, followed: ps.followed}
	p.recall(true, until)
	return p
}

// recall applies the events until a time that came before a process was asked for, which may have ended.
func (p *Process) recall(ended bool, until uint64) {
	ps := p.ps
	from, executed := 0, false
	exit := -1
	for i := range ps.earlier {
		ev := ps.earlierAt(i)
		switch {
		case ev.PID != p.pid || ev.Time > until:
		case ev.Kind == EventFork: // what was before was of another process
			from, exit = i, -1
		case ev.Kind == EventExit && exit >= 0:
			from, exit = exit+1, i
		case ev.Kind == EventExit:
			exit = i
		case exit >= 0: // that was of another process
			from, exit = exit+1, -1
		}
	}
	if exit >= 0 && !ended {
		from = exit + 1
	}
	if from == 0 && len(ps.earlier) == maxEarlier { // others were before these
		p.life.told = ps.earlierAt(0).Time
		p.unknownBefore(p.life.told)
	}
	for i := from; i < len(ps.earlier); i++ {
		ev := ps.earlierAt(i)
		switch {
		case ev.PID != p.pid || ev.Time > until:
		case ev.Kind == EventFork:
			executed = p.inherit(ev)
		case ev.Kind == EventExit:
			p.life.ended = ev.Time
		case ev.Kind == EventExec:
			executed = true
			p.exec(ev, false)
		case ev.Kind == EventMmap:
			if !executed { // what it may have replaced is not known
				p.unknownBefore(ev.Time)
			}
			p.mmap(ev)
		}
	}
}

// maxAncestors is how many ancestors that were not asked for either a process inherits mappings from.
const maxAncestors = 8

// inherit begins a process that was forked with what its parent had mapped then, until it executes a
// program. It reports whether that is known.
func (p *Process) inherit(ev *Event) bool {
	p.life.forked = ev.Time
	ps := p.ps
	if ps.ancestors == maxAncestors {
		return false
	}
	ps.ancestors++
	defer func() { ps.ancestors-- }()
	parent := ps.byPID[ev.Parent]
	if parent == nil {
		parent, _ = ps.process(ev.Parent, refreshAfter)
	}
	if parent == nil || parent == p || parent.after(ev.Time) { // the number was used again
		parent = ps.told(ev.Parent, ev.Time)
		defer parent.forget()
	}
	if !parent.knownAt(ev.Time) {
		return false
	}
	maps := parent.mapsAt(ev.Time)
	for i := range maps {
		maps[i].since = ev.Time
	}
	p.bound(ev.Time)
	p.take(parent, maps)
	return len(p.maps) > 0
}

// after reports whether the process began after a time. Its start time counts the time in which the
// machine was suspended, events do not.
func (p *Process) after(at uint64) bool {
	if p.life.forked != 0 {
		return p.life.forked > at
	}
	start := p.start * procfs.ClockTick
	if start > at && p.ps.live {
		start -= min(start, kernel.Boottime()-kernel.Monotonic())
	}
	return start > at
}

// knownAt reports whether it is known what the process had mapped at a time.
func (p *Process) knownAt(at uint64) bool {
	return !p.after(at) && at >= p.life.known && !p.life.missed(at, at)
}

// earlierAt returns the remembered event with an index, from the oldest on.
func (ps *Processes) earlierAt(i int) *Event {
	return &ps.earlier[(ps.nextEarlier+i)%len(ps.earlier)]
}
