package pmc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/borescope/borescope/internal/perfring"
)

// Counters are open events that only count. Read may be called from one goroutine at a
// time, the other methods from any. Close ends all events.
type Counters struct {
	mu     sync.Mutex
	events []Event
	errs   []string
	groups []openGroup
	cgroup *os.File
	opened time.Time
	buf    []byte
	closed bool
}

// openGroup is a group on one thread or CPU, read with one read(2).
type openGroup struct {
	number  int
	handles []*Handle // the leader first
	index   []int     // of each handle in Counters.events
	ids     []uint64  // read at the first reading
	lost    bool      // the read format includes lost samples
}

// Open opens a set of events to be counted together. As many as fit the counters form a group,
// which the kernel schedules as a whole, so that ratios between its members are meaningful. If
// not all fit, there are several groups that take turns, and Value.Coverage is the share of the
// time for which each one counted.
//
// The events start at once, together, unless o says otherwise. The caller closes the Counters.
func Open(events []Event, s Scope, o *CountOptions) (*Counters, error) {
	return open([][]Event{events}, s, o, true)
}

// OpenGroups is as Open, with the groups given: a group that does not fit the counters is
// an error, unless its leader is Weak. The caller closes the Counters.
func OpenGroups(groups [][]Event, s Scope, o *CountOptions) (*Counters, error) {
	return open(groups, s, o, false)
}

func open(groups [][]Event, s Scope, o *CountOptions, split bool) (c *Counters, err error) {
	if err := available(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &CountOptions{}
	}
	fsys := rootOf(&Options{Root: o.Root})
	places, err := s.places(fsys)
	if err != nil {
		return nil, err
	}
	c = &Counters{opened: time.Now()}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if s.Cgroup != "" {
		if c.cgroup, err = openCgroup(s.Cgroup); err != nil {
			return nil, err
		}
		for i := range places {
			places[i].Cgroup = c.cgroup
		}
	}
	b := opener{c: c, o: o, fsys: fsys, wide: s.wide(), lost: true}
	for _, g := range groups {
		first := len(c.events)
		c.events = append(c.events, g...)
		c.errs = append(c.errs, make([]string, len(g))...)
		weak := split || len(g) > 0 && g[0].Weak
		for _, set := range b.sets(first, g) {
			if err := b.set(set, places, weak); err != nil {
				return nil, err
			}
		}
	}
	if len(c.events) == 0 {
		return nil, errors.New("open: no event")
	}
	if !slices.ContainsFunc(c.errs, func(s string) bool { return s != "" }) {
		c.errs = nil
	}
	c.buf = make([]byte, c.bufSize())
	if !o.Disabled && !o.EnableOnExec {
		return c, c.Enable()
	}
	return c, nil
}

func (c *Counters) bufSize() int {
	n := 0
	for i := range c.groups {
		n = max(n, len(c.groups[i].handles))
	}
	return 8 * (3 + 3*n)
}

// opener opens groups at places.
type opener struct {
	c     *Counters
	o     *CountOptions
	fsys  fs.FS
	wide  bool
	lost  bool // the kernel supports FormatLost
	count int  // groups so far, as numbered for rows
}

// set opens events as one group at all places. Events that do not fit, and need not be in
// the same group, form a further group. Events that are split at the first place are split
// everywhere, so that the rows of a group match.
func (b *opener) set(set []int, places []Place, split bool) error {
	for len(set) > 0 {
		var rest []int
		var skipped error
		decided := false
		for _, p := range b.placesOf(set, places) {
			left, err := b.at(p, set, split && !decided)
			if err != nil && len(places) > 1 && vanished(err) {
				skipped = err
				continue
			}
			if err != nil {
				return err
			}
			if !decided {
				decided, rest = true, left
				set = slices.DeleteFunc(set, func(i int) bool {
					return slices.Contains(left, i) || b.c.errs[i] != ""
				})
			}
		}
		if !decided {
			return cmp.Or(skipped,
				fmt.Errorf("event %s: none of the CPUs asked for is one of its PMU's", b.c.events[set[0]]))
		}
		if len(set) > 0 {
			b.count++
		}
		set = rest
	}
	return nil
}

// vanished reports whether a thread ended, or a CPU went offline, since the
// places were listed.
func vanished(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

// sets separates events that can't be in one group: those of PMUs that are on some of the
// CPUs only.
func (b *opener) sets(first int, events []Event) [][]int {
	var out [][]int
	where := map[string]int{}
	for i, e := range events {
		key := ""
		if list, _ := pmuCPUs(b.fsys, e.PMU); b.wide && list != nil {
			key = e.PMU
		}
		if _, ok := where[key]; !ok {
			where[key] = len(out)
			out = append(out, nil)
		}
		out[where[key]] = append(out[where[key]], first+i)
	}
	return out
}

// placesOf restricts CPUs to those of the set's first event's PMU.
func (b *opener) placesOf(set []int, places []Place) []Place {
	if !b.wide {
		return places
	}
	list, _ := pmuCPUs(b.fsys, b.c.events[set[0]].PMU)
	if list == nil {
		return places
	}
	return slices.DeleteFunc(slices.Clone(places), func(p Place) bool {
		return !slices.Contains(list, p.CPU)
	})
}

// at opens the set as one group at one place, and returns the events that did not fit, if
// split allows that.
func (b *opener) at(p Place, set []int, split bool) (rest []int, err error) {
	g := openGroup{number: b.count, lost: b.lost}
	defer func() {
		if err != nil {
			for _, h := range g.handles {
				h.close()
			}
		}
	}()
	for _, i := range set {
		h, err := b.one(i, p, &g)
		switch {
		case err == nil:
			g.handles, g.index = append(g.handles, h), append(g.index, i)
		case split && len(g.handles) > 0 && mayNotFit(err):
			rest = append(rest, i)
		case b.o.AllowMissing && errors.Is(err, errors.ErrUnsupported):
			b.c.errs[i] = err.Error()
		default:
			return nil, err
		}
	}
	if split {
		rest = append(b.shrink(&g), rest...)
	}
	if len(g.handles) > 0 {
		b.c.groups = append(b.c.groups, g)
	}
	return rest, nil
}

// mayNotFit reports whether the kernel refused a member that may be opened alone: the
// group is too large for the counters (EINVAL), the member is another PMU's (EINVAL), or
// the leader never leaves an error state.
func mayNotFit(err error) bool { return errors.Is(err, syscall.EINVAL) }

func (b *opener) one(i int, p Place, g *openGroup) (*Handle, error) {
	o := openOptions{root: b.o.Root, inherit: b.o.Inherit}
	if len(g.handles) > 0 {
		o.leader = g.handles[0]
	} else {
		o.disabled, o.enableOnExec = true, b.o.EnableOnExec
	}
	o.readFormat = perfring.FormatGroup | perfring.FormatID | perfring.FormatEnabled |
		perfring.FormatRunning
	if b.lost {
		o.readFormat |= perfring.FormatLost
	}
	h, err := openEvent(b.c.events[i], p, &o)
	if b.lost && len(b.c.groups) == 0 && len(g.handles) == 0 && errors.Is(err, syscall.EINVAL) {
		o.readFormat &^= perfring.FormatLost
		h2, err2 := openEvent(b.c.events[i], p, &o)
		if err2 == nil {
			b.lost, g.lost = false, false
			return h2, nil
		}
	}
	return h, err
}

// Enable starts all events.
func (c *Counters) Enable() error { return c.each(iocEnable) }

// Disable stops all events; the counts remain.
func (c *Counters) Disable() error { return c.each(iocDisable) }

func (c *Counters) each(op uint) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return os.ErrClosed
	}
	for i := range c.groups {
		if err := c.groups[i].handles[0].ioctl(op, iocGroup); err != nil {
			return err
		}
	}
	return nil
}

// Events returns the events, in the order in which they were given.
func (c *Counters) Events() []Event { return slices.Clone(c.events) }

// Handles returns the Handles of one event, one for each CPU or thread: a BPF program reads
// them through a PERF_EVENT_ARRAY that holds their descriptors by CPU. They belong to the
// Counters. Handles returns nil if the event could not be opened or is not one of them.
func (c *Counters) Handles(e Event) []*Handle {
	var out []*Handle
	for i := range c.groups {
		for j, h := range c.groups[i].handles {
			if c.events[c.groups[i].index[j]] == e {
				out = append(out, h)
			}
		}
	}
	return out
}

// Read reads all events into dst, reusing its memory. It makes one read(2) for each group at
// each place; the counts of a group are consistent with each other. It allocates nothing
// once dst has its size.
func (c *Counters) Read(dst *Counts) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return os.ErrClosed
	}
	dst.Time = time.Since(c.opened)
	dst.Events, dst.Errors = c.events, c.errs
	dst.Rows = dst.Rows[:0]
	for i := range c.groups {
		g := &c.groups[i]
		if err := g.read(c.buf, dst); err != nil {
			return fmt.Errorf("read %s on %s: %w", g.handles[0].event, g.handles[0].place, err)
		}
	}
	return nil
}

// read reads one group (perf_read_group): the number of events, the times, and for each
// event its value, its id and its number of lost samples.
func (g *openGroup) read(buf []byte, dst *Counts) error {
	width := 2
	if g.lost {
		width = 3
	}
	n := 8 * (3 + width*len(g.handles))
	got, err := readEvent(g.handles[0].fd, buf[:n])
	if err != nil {
		return err
	}
	if got == 0 {
		return errors.New("the event is in error: pinned, and there was no counter for it")
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(buf[8*i:]) }
	if got != n || word(0) != uint64(len(g.handles)) {
		return fmt.Errorf("%d bytes for %d events", got, len(g.handles))
	}
	if g.ids == nil {
		if err := g.learnIDs(); err != nil {
			return err
		}
	}
	for i, h := range g.handles {
		at := 3 + width*i
		if word(at+1) != g.ids[i] {
			return fmt.Errorf("member %d has id %d, want %d", i, word(at+1), g.ids[i])
		}
		r := Row{
			Event: g.index[i], Group: g.number, TID: h.place.PID, CPU: h.place.CPU,
			Raw: word(at), Enabled: time.Duration(word(1)), Running: time.Duration(word(2)),
		}
		if g.lost {
			r.Lost = word(at + 2)
		}
		dst.Rows = append(dst.Rows, r)
	}
	return nil
}

func (g *openGroup) learnIDs() error {
	ids := make([]uint64, len(g.handles))
	for i, h := range g.handles {
		var err error
		if ids[i], err = h.ID(); err != nil {
			return err
		}
	}
	g.ids = ids
	return nil
}

// Close ends all events. It may be called again, and on nil Counters.
func (c *Counters) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var errs []error
	for i := len(c.groups) - 1; i >= 0; i-- {
		for _, h := range slices.Backward(c.groups[i].handles) {
			errs = append(errs, h.close())
		}
	}
	if c.cgroup != nil {
		errs = append(errs, c.cgroup.Close())
	}
	return errors.Join(errs...)
}
