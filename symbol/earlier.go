package symbol

import "github.com/borescope/borescope/internal/procfs"

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
	p := &Process{ps: ps, pid: pid, exited: true, user: procfs.Anybody, followed: ps.followed}
	if p.recall(true); len(p.maps) == 0 {
		return nil
	}
	ps.tick++
	ps.recent(p)
	return p
}

// recall applies the events that came before a process was asked for, which may have ended.
func (p *Process) recall(ended bool) {
	ps := p.ps
	from, executed := 0, false
	exit := -1
	for i := range ps.earlier {
		ev := ps.earlierAt(i)
		switch {
		case ev.PID != p.pid:
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
		case ev.PID != p.pid:
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

// earlierAt returns the remembered event with an index, from the oldest on.
func (ps *Processes) earlierAt(i int) *Event {
	return &ps.earlier[(ps.nextEarlier+i)%len(ps.earlier)]
}
