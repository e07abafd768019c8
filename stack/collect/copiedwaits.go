package collect

import (
	"encoding/binary"
	"slices"
)

// The copy of a wait's stack is made when the wait begins, and whether and as what it was counted is known when
// it has ended. The programs send both; the wait is moved when both have come and the copy was walked.

// maxBegun is how many waits are kept of which one of the two has come.
const maxBegun = 4096

// waitID tells waits apart.
type waitID struct {
	thread uint32
	start  uint64
}

// walkedWait is a wait that began: its copy was walked. Most of them end; those of threads that were never
// seen to come back are dropped for others.
type walkedWait struct {
	start uint64
	to    taskKey // without the stack
	walkedStack
}

// endedWait is the record of a wait that ended.
type endedWait struct {
	Key                waitKey
	Start, Last, Value uint64
	Thread, Window     uint32
}

// dropShort drops the copy of an earlier wait of a thread that waits anew: that was not counted, or its end
// would have come. Most waits are shorter than those that are counted.
func (p *copied) dropShort(b []byte) {
	if p.c.filter.waits == 0 {
		return
	}
	thread := threadOf(b)
	p.waiting = slices.DeleteFunc(p.waiting, func(w []byte) bool {
		if threadOf(w) != thread {
			return false
		}
		_, counted := p.ended[waitID{thread, timeOf(w)}]
		if !counted {
			p.waitingBytes -= len(w)
		}
		return !counted
	})
}

// threadOf is the thread of the copy of a wait.
func threadOf(b []byte) uint32 { return uint32(binary.NativeEndian.Uint64(b[unwalkedValue:])) }

// beginWait is told of a wait whose copy was walked. It may have ended already.
func (p *copied) beginWait(thread uint32, w walkedWait) {
	if e, ok := p.ended[waitID{thread, w.start}]; ok {
		delete(p.ended, waitID{thread, w.start})
		p.moveWait(&e, w)
		return
	}
	if old, ok := p.begun[thread]; ok && old.start > w.start {
		return // its end was not seen
	} else if !ok && len(p.begun) >= maxBegun {
		for other := range p.begun { // any: most of them were not counted, of threads that have ended
			delete(p.begun, other)
			break
		}
	}
	if p.begun == nil {
		p.begun = make(map[uint32]walkedWait)
	}
	p.begun[thread] = w
}

// endWait is told of a wait that ended. Its copy may wait for a file to be compiled.
func (p *copied) endWait(e *endedWait) {
	w, ok := p.begun[e.Thread]
	switch {
	case ok && w.start == e.Start:
		delete(p.begun, e.Thread)
		p.moveWait(e, w)
	case len(p.waiting)+p.held == 0:
		clear(p.ended)
	case len(p.ended) >= maxBegun:
		p.full++
	default:
		if p.ended == nil {
			p.ended = make(map[waitID]endedWait)
		}
		p.ended[waitID{e.Thread, e.Start}] = *e
	}
}

// moveWait moves a wait that ended to the stack that was found when it began.
func (p *copied) moveWait(e *endedWait, w walkedWait) {
	p.move(int(e.Window&1), e.Key.Task, e.Key.Waker, w.to, w.walkedStack, summed{1, int64(e.Value), e.Start, e.Last})
}
