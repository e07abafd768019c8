package symbol

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

// recall applies the events that came before a process was asked for.
func (p *Process) recall() {
	ps := p.ps
	from, executed := 0, false
	for i := range ps.earlier {
		if ev := ps.earlierAt(i); ev.PID == p.pid && ev.Kind == EventExit {
			from = i + 1 // of another process
		}
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
