package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/borescope/borescope/pmc/internal/userpage"
)

// Meter counts for the thread that opened it, and reads the CPU's counters without a system
// call if the machine permits it: on x86 by rdpmc (sysfs …/cpu/rdpmc, 1 by default), on
// arm64 by mrs (kernel.perf_user_access = 1, Linux 5.17; off by default). Elsewhere, and for
// software events, it uses read(2).
//
// A goroutine that uses a Meter must call runtime.LockOSThread before OpenMeter and stay
// locked until Close: on another thread the numbers are meaningless. On machines with CPUs
// of several kinds, only the counters of the kind that the event names can be read. The
// amd64 instructions are tested on recorded pages only, because no machine with a PMU of
// that architecture was available.
type Meter struct {
	c       *Counters
	pages   []*userpage.Page // by event; nil without one
	mem     [][]byte
	scratch Counts
}

// OpenMeter opens the events for the calling thread. Nil events are
// DefaultEvents. The caller closes the Meter.
func OpenMeter(events []Event, o *CountOptions) (*Meter, error) {
	if o == nil {
		o = &CountOptions{}
	}
	if events == nil {
		events = DefaultEvents(&Options{Root: o.Root})
	}
	opts := *o
	opts.Inherit, opts.EnableOnExec = false, false
	c, err := Open(userReadable(events, o.Root), Scope{}, &opts)
	if err != nil {
		return nil, err
	}
	c.events = append([]Event(nil), events...)
	m := &Meter{c: c, pages: make([]*userpage.Page, len(events))}
	for i := range c.groups {
		for j, h := range c.groups[i].handles {
			if !h.event.Hardware() {
				continue
			}
			mem, err := mapPage(h.fd)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("map the page of %s: %w", h.event, err), m.Close())
			}
			m.mem = append(m.mem, mem)
			m.pages[c.groups[i].index[j]] = userpage.At(mem)
		}
	}
	if err := m.Read(&m.scratch); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// userReadable enables user-space reads for events that need a flag for it: config1 bit 1 on
// arm64 (format/rdpmc of armv8_pmuv3), which costs nothing otherwise.
func userReadable(events []Event, root fs.FS) []Event {
	if runtime.GOARCH != "arm64" {
		return events
	}
	b, err := readSmall(rootOf(&Options{Root: root}), "proc/sys/kernel/perf_user_access")
	if err != nil || strings.TrimSpace(string(b)) != "1" {
		return events
	}
	const rdpmc = 1 << 1
	out := append([]Event(nil), events...)
	for i := range out {
		if out[i].Hardware() {
			out[i].Config1 |= rdpmc
		}
	}
	return out
}

// UserReads reports whether all events are currently read without a system call.
func (m *Meter) UserReads() bool {
	for _, p := range m.pages {
		if p == nil {
			return false
		}
		if _, ok := p.Value(); !ok {
			return false
		}
	}
	return true
}

// Values reads the events' counts, unscaled, into dst in their order: one by one from the
// CPU if possible, else all with read(2). It allocates nothing. dst must have one element
// for each event.
func (m *Meter) Values(dst []uint64) error {
	if len(dst) != len(m.pages) {
		return fmt.Errorf("%d values for %d events", len(dst), len(m.pages))
	}
	for i, p := range m.pages {
		if p == nil {
			return m.slowValues(dst)
		}
		v, ok := p.Value()
		if !ok {
			return m.slowValues(dst)
		}
		dst[i] = v
	}
	return nil
}

func (m *Meter) slowValues(dst []uint64) error {
	if err := m.c.Read(&m.scratch); err != nil {
		return err
	}
	clear(dst)
	for _, r := range m.scratch.Rows {
		dst[r.Event] = r.Raw
	}
	return nil
}

// Read reads the counts of the events, with their times, by read(2).
func (m *Meter) Read(dst *Counts) error { return m.c.Read(dst) }

// Events returns the events, in order.
func (m *Meter) Events() []Event { return m.c.Events() }

// Close ends the events. It may be called again, and on a nil Meter.
func (m *Meter) Close() error {
	if m == nil {
		return nil
	}
	clear(m.pages)
	var errs []error
	for _, mem := range m.mem {
		errs = append(errs, unmapPage(mem))
	}
	m.mem = nil
	return errors.Join(append(errs, m.c.Close())...)
}
