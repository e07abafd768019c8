package pmc

import (
	"encoding/binary"
	"runtime"
	"slices"
	"time"

	"github.com/borescope/borescope/internal/perfring"
)

// The kernel refuses a group that can never fit the counters, as far as it knows when the
// group is opened. It does not know which counters are permanently occupied (by the NMI
// watchdog's pinned event), and some drivers assume one counter too many. Such a group is
// opened and never counts. So before a set is split, its first group is tried.

// trialTime is how long a group may wait for its turn: some rotations of the
// kernel's default of 4 ms.
const trialTime = 15 * time.Millisecond

// minTrial is the number of hardware events from which a trial is worth its system calls:
// even a CPU with one counter occupied has two left.
const minTrial = 3

// shrink removes events from the end of a group until the group gets counters, and returns
// them.
func (b *opener) shrink(g *openGroup) (rest []int) {
	for len(g.handles) > 1 {
		var events []Event
		hardware := 0
		for _, h := range g.handles {
			events = append(events, h.event)
			if h.event.Hardware() {
				hardware++
			}
		}
		if hardware < minTrial || b.schedulable(events) {
			break
		}
		last := len(g.handles) - 1
		rest = append(rest, g.index[last])
		g.handles[last].close()
		g.handles, g.index = g.handles[:last], g.index[:last]
	}
	slices.Reverse(rest)
	return rest
}

// schedulable opens the events as a group on this thread and reports whether it is ever
// counted. It also reports true if that can't be tried.
func (b *opener) schedulable(events []Event) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var handles []*Handle
	defer func() {
		for _, h := range handles {
			h.close()
		}
	}()
	for i, e := range events {
		o := &openOptions{
			disabled: i == 0, readFormat: perfring.FormatEnabled | perfring.FormatRunning,
			root: b.o.Root,
		}
		if i > 0 {
			o.leader = handles[0]
		}
		h, err := openEvent(e, onThread(0), o)
		if err != nil {
			return true
		}
		handles = append(handles, h)
	}
	if handles[0].ioctl(iocEnable, iocGroup) != nil {
		return true
	}
	for end := time.Now().Add(trialTime); ; {
		var buf [24]byte // value, enabled, running
		if n, err := readEvent(handles[0].fd, buf[:]); err != nil || n != len(buf) {
			return err != nil
		}
		if binary.NativeEndian.Uint64(buf[16:]) > 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
