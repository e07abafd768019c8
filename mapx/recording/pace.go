package recording

import (
	"context"
	"os"
	"sync"
	"time"
)

// pacer delays recorded data until its time. It is safe for concurrent use. A nil pacer delays
// nothing.
type pacer struct {
	speed float64
	done  <-chan struct{} // ends all waits; nil is never

	mu    sync.Mutex
	begin time.Time // when the recording's start is replayed
}

func newPacer(o *ReplayOptions, done <-chan struct{}) *pacer {
	if o == nil || o.Speed <= 0 {
		return nil
	}
	return &pacer{speed: o.Speed, begin: o.Begin, done: done}
}

// wait waits until data that was recorded at after the start is due. It returns ctx.Err(), or
// os.ErrClosed when stop or the owner's done is closed.
func (p *pacer) wait(ctx context.Context, stop <-chan struct{}, at time.Duration) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	wait := time.Until(p.begin.Add(time.Duration(float64(at) / p.speed)))
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-stop:
	case <-p.done:
	}
	return os.ErrClosed
}
