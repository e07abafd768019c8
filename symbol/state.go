package symbol

import (
	"cmp"
	"math"
	"slices"

	"github.com/borescope/borescope/internal/procfs"
)

// State is what a process mapped in a time, and names addresses that were sampled in it. Two States of
// a process are equal if nothing that is known came between their times, so that they can be the key of
// a cache (see Version). The zero State names nothing.
//
// An address has no name (ReasonChanged) where the process mapped one file and then another within the
// time, or may have: if events were lost, or it was not known yet. Processes that are followed
// (Processes.Follow) are known from their first reading on, and for as long as the earlier states are
// kept, some thirty.
type State struct {
	p        *Process
	from, to uint64 // the last bounds before the time's beginning and its end
	since    bool   // it is Processes.Since's
}

// timeless is the time of a State that has none: addresses are named by any mapping, the newest first.
const timeless = math.MaxUint64

// During returns the state of a process in the time from first to last, in nanoseconds of
// CLOCK_MONOTONIC; if both are 0 the State is of no time, and names as Process.Resolve does. start is
// when the process started, as StartTime has it: if another process had the number then, the State is
// that one's, and the zero State if that was never seen. With a start of 0, and of processes that are known from
// events alone, the State is that of the process which had the number at first; with a start of 0 it is this
// process's if that was never seen.
func (p *Process) During(start, first, last uint64) State {
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	if !p.owns(start, first) {
		other := p.ps.owner(p.pid, start, first)
		switch {
		case other != nil:
			p = other
		case start != 0:
			return State{}
		}
	}
	if first == 0 && last == 0 {
		return State{p: p, from: timeless, to: timeless}
	}
	return State{p: p, from: p.life.bound(first), to: p.life.bound(max(first, last))}
}

// Timed is a Resolver of a process that knows what its addresses were in a time: what a Recording
// returns, or a Resolver around one that adds names of its own.
type Timed interface {
	Resolver
	// During is Process.During, with a Resolver for the addresses of samples of that time.
	During(start, first, last uint64) (Resolver, State)
}

// During returns the resolver of a process for the addresses of samples of a time, and the state that
// the process was in: those that a *Process or a Timed knows, else r and no state. A Timed around
// another resolver asks it so.
func During(r Resolver, start, first, last uint64) (Resolver, State) {
	switch r := r.(type) {
	case *Process:
		s := r.During(start, first, last)
		return s, s
	case Timed:
		return r.During(start, first, last)
	}
	return r, State{}
}

// owns reports whether the process may be the one that started and had its number at these times, of which
// each may be 0. That of one that is known from events alone is not known in clock ticks.
func (p *Process) owns(start, at uint64) bool {
	if start != 0 && p.start != 0 {
		return start == p.start
	}
	return at == 0 || p.lived(at)
}

// owner returns the process that started and had a number at these times, nil if it was not seen.
func (ps *Processes) owner(pid int, start, at uint64) *Process {
	if start != 0 {
		if p := ps.byPID[pid]; p != nil && p.start == start {
			return p
		}
		if p := ps.gone[procKey{pid, start}]; p != nil {
			return p
		}
	}
	if at == 0 {
		return nil
	}
	if p, err := ps.had(pid, at); err == nil && p.owns(start, at) {
		return p
	}
	return nil
}

// Changed reports whether the process mapped several things at an address within the time, or may have,
// so that the address has no name.
func (st State) Changed(pc uint64) bool {
	if st.p == nil || st.from == timeless {
		return false
	}
	st.p.ps.mu.Lock()
	defer st.p.ps.mu.Unlock()
	_, changed := st.find(pc)
	return changed
}

// Mapping is a stretch of a process's memory and what it maps, as in /proc/PID/maps: addresses from Start
// to before End, bytes of Offset into the file, and the file's path in the process's root.
type Mapping = procfs.Mapping

// Code returns the executable mappings of the State's time, by their addresses, for stack.CFICache. Of a
// process that is known from events, also after it ended, it is what these have told.
func (st State) Code() []Mapping {
	if st.p == nil {
		return nil
	}
	st.p.ps.mu.Lock()
	defer st.p.ps.mu.Unlock()
	var out []procfs.Mapping
	for _, m := range st.p.mapsAt(st.to) {
		if m.exec {
			out = append(out, m.code())
		}
	}
	return out
}

// mapsAt returns what the process had mapped at a time, by address, and what was mapped later where there
// was nothing.
func (p *Process) mapsAt(at uint64) (out []mapping) {
	add := func(maps []mapping) {
		there := out
		for _, m := range maps {
			if i := endsAfter(there, m.start); i == len(there) || there[i].start >= m.end {
				out = append(out, m)
			}
		}
		slices.SortFunc(out, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	}
	if at != timeless {
		for i := len(p.old) - 1; i >= 0; i-- { // what was there first had the addresses then
			if o := &p.old[i]; o.until > at {
				add(o.maps)
			}
		}
	}
	add(p.maps)
	return out
}

// code returns a mapping as the kernel lists it.
func (m *mapping) code() procfs.Mapping {
	out := procfs.Mapping{
		Start: m.start, End: m.end, Offset: m.offset, Path: m.path, Deleted: m.deleted,
		Perm: procfs.Read | procfs.Exec,
	}
	if m.img != nil && m.img.key.path == "" {
		out.Dev, out.Inode = m.img.key.dev, m.img.key.inode
	}
	return out
}

// Version is Process.Version of the State's process: names of addresses in files stay the same for as
// long as it does.
func (st State) Version() uint64 {
	if st.p == nil {
		return 0
	}
	return st.p.Version()
}

// Resolve implements Resolver.
func (st State) Resolve(dst []Frame, pcs []uint64) []Frame {
	if st.p == nil {
		for i, pc := range pcs {
			dst = append(dst, Frame{Index: i, ModuleOffset: pc, Kind: KindUser, Reason: ReasonExited})
		}
		return dst
	}
	return st.p.resolve(dst, pcs, st.find)
}

// find returns the mapping that an address was in; changed reports whether there were several, or may have
// been. The State has a time.
func (st State) find(pc uint64) (m *mapping, changed bool) {
	if st.from == timeless {
		return st.p.find(pc), false
	}
	m, changed = st.p.during(pc, st.from, st.to)
	l := &st.p.life
	if st.since {
		// What was there before events were missing and afterwards is taken to have been there meanwhile:
		// else one missing event would leave all of a process's life without names.
		return m, changed || l.lost != 0 && st.to >= l.lost
	}
	return m, changed || l.missed(st.from, st.to)
}

// life has the times at which a process's mappings became others.
type life struct {
	// forked is when the process began, if an event has told that; else 0.
	forked uint64
	// began is when the program was executed; 0 if that was before it was known.
	began uint64
	// execs are the times at which it executed programs, ascending, the last ones of them.
	execs []uint64
	// ended is when it ended, if an event has told that; else 0.
	ended uint64
	// told is since when all events are known, though the process was not; 0 if there were no others.
	told uint64
	// known is from when on all mappings are known: others may have been where these are.
	known uint64
	// lost is since when events are missing, if the mappings were not read since then; 0 if none are.
	lost uint64
	// gaps are the times in which events were missing, ascending.
	gaps []gap
	// bounds are the times at which an address may have got another name, ascending.
	bounds []uint64
}

// gap is a time from when events were missing to when the mappings were read again.
type gap struct{ from, to uint64 }

// maxBounds is how many of its bounds a process keeps: an earlier state has two.
const maxBounds = 2 * maxOld

// bound returns the last bound until a time, 0 if there is none.
func (l *life) bound(at uint64) uint64 {
	i, found := slices.BinarySearch(l.bounds, at)
	switch {
	case found:
		return at
	case i == 0:
		return 0
	}
	return l.bounds[i-1]
}

// bound notes that an address may have other names before a time and after it.
func (p *Process) bound(at uint64) {
	l := &p.life
	i, found := slices.BinarySearch(l.bounds, at)
	if found || at == 0 {
		return
	}
	l.bounds = slices.Insert(l.bounds, i, at)
	if len(l.bounds) > maxBounds {
		l.known = max(l.known, l.bounds[1]) // the first one from now on
		l.bounds = slices.Delete(l.bounds, 0, 1)
	}
}

// unknownBefore notes that what was mapped before a time is not known.
func (p *Process) unknownBefore(at uint64) {
	if at > p.life.known {
		p.life.known = at
		p.bound(at)
	}
}

// lose notes that what came since a time is not known.
func (p *Process) lose(at uint64) {
	if p.life.lost == 0 {
		p.life.lost = max(at, 1)
		p.bound(p.life.lost)
	}
}

// found notes that the mappings were read after events were lost. They may be the same as before and
// have been others meanwhile.
func (p *Process) found() {
	l := &p.life
	if l.lost == 0 {
		return
	}
	p.bound(p.asOf)
	l.gaps = append(l.gaps, gap{l.lost, p.asOf})
	l.lost = 0
	if len(l.gaps) > maxOld {
		p.unknownBefore(l.gaps[0].to)
		l.gaps = slices.Delete(l.gaps, 0, 1)
	}
}

// began notes that the process executed a program. Nothing that was mapped before it is mapped any
// more.
func (p *Process) began(at uint64) {
	l := &p.life
	l.began = max(l.began, at)
	if i, found := slices.BinarySearch(l.execs, at); !found {
		l.execs = slices.Insert(l.execs, i, at)
		l.execs = slices.Delete(l.execs, 0, max(0, len(l.execs)-maxOld))
	}
	p.bound(at)
	if len(p.old) == 0 {
		p.unknownBefore(at)
	}
}

// knownUntil returns until when the mappings are known to have been there.
func (p *Process) knownUntil() uint64 {
	switch {
	case p.life.lost != 0:
		return p.life.lost
	case p.current():
		return p.ps.monotonic()
	case p.followed != 0: // until events were lost
		return max(p.asOf, p.ps.lostAt)
	}
	return p.asOf
}

// date notes since when mappings that were just read have been there, as far as that is known; first
// is set if the process was not read before.
func (p *Process) date(fresh []mapping, first bool) {
	for i := range fresh {
		m := &fresh[i]
		if o := findMapping(p.maps, m.start); o != nil && o.isSame(m) {
			m.since = o.since
			continue
		}
		m.since = p.asOf
		if first || len(p.maps) == 0 {
			m.since = max(p.life.began, p.life.told)
		}
	}
}

// isSame reports whether an address in two mappings is the same place of the same file, or memory in
// both.
func (m *mapping) isSame(o *mapping) bool {
	if m.img == nil && o.img == nil {
		return true
	}
	return m.img == o.img && m.path == o.path && m.start-m.offset == o.start-o.offset
}

// late applies an event that tells when something came that was read already.
func (p *Process) late(ev *Event) {
	end := ev.Addr + ev.Len
	if ev.Kind == EventExec {
		end = math.MaxUint64
	}
	found, other := false, false
	for i := range p.maps {
		m := &p.maps[i]
		if m.start < end && ev.Addr < m.end && m.since < ev.Time && m.img != nil {
			// Nothing was there when the program began.
			other = other || p.life.began == 0 || m.since > p.life.began
			m.since, found = ev.Time, true
		}
	}
	if !found && ev.Kind != EventExec {
		return
	}
	switch {
	case len(p.old) > 0 && !p.old[0].exact:
		p.old[0].until, p.old[0].exact = max(p.old[0].until, ev.Time), true
	case other:
		p.unknownBefore(ev.Time)
	}
	p.bound(ev.Time)
	if ev.Kind == EventExec {
		p.began(ev.Time)
	}
	p.changed()
}

// during returns the mapping that an address was in from one time to another; changed reports whether
// there were several, or may have been, by the events that are there.
func (p *Process) during(pc, first, last uint64) (m *mapping, changed bool) {
	m = findMapping(p.maps, pc)
	for i := range p.old { // from the newest on
		o := &p.old[i]
		if o.until <= first && (o.exact || m != nil && m.since <= first) {
			continue
		}
		n := findMapping(o.maps, pc)
		switch {
		case n == nil:
		case m == nil || o.until > last:
			m, changed = n, false
		case !m.isSame(n):
			changed = true
		}
	}
	l := &p.life
	if m != nil && m.since > first && first < l.known {
		changed = true
	}
	return m, changed
}

// missed reports whether events are missing of a time.
func (l *life) missed(first, last uint64) bool {
	return l.lost != 0 && last >= l.lost ||
		slices.ContainsFunc(l.gaps, func(g gap) bool { return first < g.to && last >= g.from })
}
