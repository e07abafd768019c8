package collect

import (
	"errors"
	"slices"
	"sync"

	"github.com/borescope/borescope/mapx"
)

// window says which halves of the tables the programs write to. With Options.Windows there are
// two of each table; without, active stays 0.
type window struct {
	mu     sync.Mutex // also held while tables are read
	active int        // guarded by mu
}

// windowTable is a table of two maps. A snapshot is one of the map that programs write to;
// ReadAndClear is for the other, when none does any more.
type windowTable[K comparable, V any] struct {
	w     *window
	parts [2]*mapx.Map[K, V]
}

func (t *windowTable[K, V]) active() mapx.Table[K, V] { return t.parts[t.w.active] }

// Snapshot implements mapx.Table.
func (t *windowTable[K, V]) Snapshot() (mapx.Snapshot[K, V], error) {
	return t.parts[t.w.active].Snapshot()
}

// ReadAndClear implements mapx.Table.
func (t *windowTable[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) {
	return t.parts[1-t.w.active].ReadAndClear()
}

// openTable opens the map of this name, or the two that there are of it.
func openTable[K comparable, V any](c *Collector, name string) (mapx.Table[K, V], error) {
	if !slices.Contains(c.filter.windowed(), name) {
		return mapx.New[K, V](c.coll.Maps[name])
	}
	t := &windowTable[K, V]{w: &c.window}
	var err error
	for i, half := range halves(name) {
		if t.parts[i], err = mapx.New[K, V](c.coll.Maps[half]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func readTable[K, V any](t mapx.Table[K, V], andClear bool) (mapx.Snapshot[K, V], error) {
	if andClear {
		return t.ReadAndClear()
	}
	return t.Snapshot()
}

// errNoWindows is the error of ReadAndClear for collectors without Options.Windows.
var errNoWindows = errors.New(
	"collect: ReadAndClear: the Collector was attached without Options.Windows")

// ReadAndClear returns what was counted since the last call, in the order of Samples, and
// forgets it: a window of time. Every sample is in exactly one window. Samples returns those of
// the window that has begun; Stats goes on counting all.
//
// A window has room for MaxStacks stacks, whatever was in those before. Waits are an exception:
// one that ends in a window may have begun in an earlier one. Their stacks are kept, so a
// Collector of AttachWaits has room for MaxStacks distinct stacks altogether.
//
// It waits until every program run has ended that may still count in the old window: some
// milliseconds, tens on a busy machine. It needs Options.Windows. After an error, what was not
// read yet is in a later window.
func (c *Collector) ReadAndClear() ([]Sample, error) {
	if c.filter != nil && !c.filter.windows {
		return nil, errNoWindows
	}
	c.window.mu.Lock()
	defer c.window.mu.Unlock()
	c.memory.Renew()
	if err := c.turn(); err != nil {
		return nil, c.failed("begin a window", err)
	}
	totals, err := c.read(true)
	if err != nil {
		return nil, c.failed("read counts", err)
	}
	var stacks segments
	if err := stacks.read(c.segments, !c.keepStacks); err != nil {
		return nil, c.failed("read stacks", err)
	}
	c.learn()
	return samples(totals, &stacks), nil
}

// turn has programs write to the other halves, and waits until none writes to these any more:
// the kernel does that when a map of maps is changed (see mapx.Flip), even to what it was. A
// replay has nothing to turn. The caller holds window.mu.
func (c *Collector) turn() error {
	if c.filter == nil {
		return nil
	}
	next := 1 - c.window.active
	if err := c.writeTo(next); err != nil {
		return err
	}
	name := c.filter.table()
	return c.coll.Maps[whole(name)].Put(uint32(0), c.coll.Maps[halves(name)[0]])
}

// writeTo says to which halves programs write, and whether they copy. The caller holds window.mu.
func (c *Collector) writeTo(active int) error {
	err := c.coll.Maps[mapMode].Put(uint32(0), [2]uint32{uint32(active), c.copy})
	if err == nil {
		c.window.active = active
	}
	return err
}
