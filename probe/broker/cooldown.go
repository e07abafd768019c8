package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/borescope/borescope/probe"
)

// A user may not attach for a pause at places where its attachment was hit too often. Each
// pause is twice as long as the last, until the user has behaved for as long as it waited.
const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// maxPauses limits a user's places with a pause: with more it attaches nowhere.
	maxPauses = 64
)

// pauses are kept by user and place. The zero value is ready.
type pauses struct {
	mu sync.Mutex
	of map[uint32]map[string]pause // guarded by mu
}

type pause struct {
	until time.Time
	long  time.Duration
}

// begin begins a pause of a user at those places.
func (p *pauses) begin(uid uint32, places []string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	if p.of == nil {
		p.of = map[uint32]map[string]pause{}
	}
	if p.of[uid] == nil {
		p.of[uid] = map[string]pause{}
	}
	for _, place := range places {
		was, ok := p.of[uid][place]
		if !ok && len(p.of[uid]) == maxPauses {
			delete(p.of[uid], soonest(p.of[uid]))
		}
		long := min(max(2*was.long, firstPause), longestPause)
		p.of[uid][place] = pause{now.Add(long), long}
	}
}

// check refuses a user the places where it has a pause.
func (p *pauses) check(uid uint32, places []string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(now)
	var until time.Time
	for _, place := range places {
		if at := p.of[uid][place].until; at.After(until) {
			until = at
		}
	}
	if of := p.of[uid]; len(of) == maxPauses {
		if at := of[soonest(of)].until; at.After(until) {
			until = at
		}
	}
	if wait := until.Sub(now); wait > 0 {
		return refuse("user %d had probes there that were hit too often: ask again in %v", uid,
			wait.Round(time.Second))
	}
	return nil
}

// soonest returns the place whose pause ends first, or has ended first.
func soonest(of map[string]pause) string {
	return slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b string) int {
		return of[a].until.Compare(of[b].until)
	})
}

// forget drops pauses that have been over for as long as they took. mu is held.
func (p *pauses) forget(now time.Time) {
	for uid, of := range p.of {
		maps.DeleteFunc(of, func(_ string, q pause) bool { return now.After(q.until.Add(q.long)) })
		if len(of) == 0 {
			delete(p.of, uid)
		}
	}
}

// placesOf returns names of a plan's places, which do not depend on the path that leads to
// a file, on the process that a probe is for, or on how often it samples.
func placesOf(plan *probe.Plan) []string {
	var out []string
	for i := range plan.Programs {
		for j := range plan.Programs[i].Sites {
			out = append(out, placeName(plan, &plan.Programs[i].Sites[j]))
		}
	}
	return out
}

func placeName(plan *probe.Plan, s *probe.Site) string {
	if id, ok := plan.Files[s.Path]; ok {
		return fmt.Sprintf("%d:%d+%#x", id.Device, id.Inode, s.Offset)
	}
	switch t := s.Target.(type) {
	case probe.Perf:
		switch {
		case t.Every != 0 || isClock(t):
			return "clock"
		case t.Event.Hardware(): // one event has many encodings
			return "hardware"
		}
		return fmt.Sprintf("event %+v", encoding(t))
	case probe.Watchpoint:
		if t.PID != 0 { // a process may have its variables anywhere
			return "watchpoint"
		}
	}
	return spelling(s.Target) + " " + strconv.FormatUint(s.Address, 16)
}
