package broker

import (
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/deploy"
)

// attachment is what a session holds for its client.
type attachment struct {
	account account
	booked  bool
	bytes   int64
	gate    *gate     // on the client's own processes, else nil
	end     sync.Once // release
	// common and share are set on those that belong to the connection.
	common *common
	share  *deploy.User
	// maps and progs are the ids of those that the client has descriptors of.
	maps  []ebpf.MapID
	progs []ebpf.ProgramID

	perSecond uint64 // of the rule
	// tooHot is called once when it ends because its places are hit too often.
	tooHot func(now time.Time)

	// These are guarded by session.mu as soon as the client has the attachment.
	since time.Time
	hits  uint64 // up to since
	err   error  // why it has ended
	told  bool   // the end was audited
}

// Every hit costs a trap, whether the programs run or not: that is too much for sites that
// are hit much more often than the programs may run.
const (
	hotFactor = 10
	hotLeast  = 10_000 // hits a second that are always allowed
)

// hot returns the number of hits in a second that ends an attachment.
func hot(perSecond uint64) uint64 {
	return max(hotLeast, hotFactor*min(perSecond, 1<<48))
}

// ended returns why an attachment has ended or may not go on, nil if it may.
func (a *attachment) ended(now time.Time) error {
	if a.err != nil || a.share == nil {
		return a.err
	}
	shut, err := a.gate.shut()
	if err == nil && shut {
		err = fmt.Errorf("it has ended: a process that it was for has executed another program: %w",
			fs.ErrClosed)
	}
	if err == nil {
		var st deploy.UserStats
		st, err = a.share.Stats()
		if err == nil {
			err = a.rate(now, st.Events+st.Dropped)
		}
	}
	a.err = err
	return err
}

// rate checks the number of hits of each second.
func (a *attachment) rate(now time.Time, hits uint64) error {
	took := now.Sub(a.since)
	if took < time.Second {
		return nil
	}
	n := float64(hits-a.hits) / took.Seconds()
	a.since, a.hits = now, hits
	if most := hot(a.perSecond); n > float64(most) {
		if a.tooHot != nil {
			a.tooHot(now)
		}
		return fmt.Errorf("it has ended: its places are hit %.0f times a second, %d are allowed: %w", n,
			most, fs.ErrClosed)
	}
	return nil
}
