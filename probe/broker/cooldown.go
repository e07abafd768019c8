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

// How long a user has no probes at places where it had one that was hit too often:
// each time twice as long, until it has behaved for as long as it was kept waiting.
const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// maxPauses is at how many places at a time: beyond them it attaches nowhere.
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

// begin has a user wait with those places.
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

// check refuses a user the places that it has to wait with.
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
		return refuse("user %d had probes there that were hit too often: ask again in %v", uid, wait.Round(time.Second))
	}
	return nil
}

// soonest is the place whose pause ends first, or ended.
func soonest(of map[string]pause) string {
	return slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b string) int { return of[a].until.Compare(of[b].until) })
}

// forget drops what has been over for as long as it took. mu is held.
func (p *pauses) forget(now time.Time) {
	for uid, of := range p.of {
		maps.DeleteFunc(of, func(_ string, q pause) bool { return now.After(q.until.Add(q.long)) })
		if len(of) == 0 {
			delete(p.of, uid)
		}
	}
}

// placesOf names a plan's places, the same whatever path leads to a file and whichever
// process a probe is for.
func placesOf(plan *probe.Plan) []string {
	var out []string
	for i := range plan.Programs {
		for j := range plan.Programs[i].Sites {
			s := &plan.Programs[i].Sites[j]
			if id, ok := plan.Files[s.Path]; ok {
				out = append(out, fmt.Sprintf("%d:%d+%#x", id.Device, id.Inode, s.Offset))
			} else {
				out = append(out, s.Target.String()+" "+strconv.FormatUint(s.Address, 16))
			}
		}
	}
	return out
}
