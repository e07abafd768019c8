package action

import (
	"reflect"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Pair joins the entry of a call with its return: Enter keeps a value, and Leave gives it
// back. Calls are told apart by thread and by nesting depth, so that recursion and calls from
// interrupts pair correctly.
//
// In programs written in Go, calls are told apart by goroutine, which may return on another
// thread, and by the frame's place in the goroutine's stack. The depth would be wrong there
// because an entry may be seen twice: a function begins anew after its prologue has grown the
// stack or yielded to other goroutines. The second Enter then replaces the first.
//
// A return without an entry is counted (Missed): the call began before the probe was
// attached, or its entry found no room.
type Pair[V any] struct {
	depth *Hash[uint64, uint32]
	calls *Hash[pairKey, V]
	miss  *Hash[None, uint64]
}

// pairKey is a call in progress. Depth counts the calls, or is the frame's place
// in a goroutine's stack.
type pairKey struct {
	ID    uint64
	Depth uint64
}

// NewPair returns a Pair with room for entries calls in progress (0: ir.DefaultEntries).
// Calls of threads that ended without returning are evicted when the room is needed.
func NewPair[V any](name string, entries int) *Pair[V] {
	p := &Pair[V]{
		depth: NewLRU[uint64, uint32](name+"_depth", entries),
		calls: NewLRU[pairKey, V](name, entries),
		miss:  NewCell[uint64](name + "_miss"),
	}
	p.calls.m.Pos = callerPos()
	return p
}

// id returns what tells calls apart: the checker makes it the goroutine's id or the thread's.
func (p *Pair[V]) id(c *Ctx) Int { return c.Builtin("call_id") }

// Enter keeps value for the return of the call. It is for the probe at the call's entry.
func (p *Pair[V]) Enter(c *Ctx, value any) {
	v := lift(value)
	if t, err := ir.TypeFor(reflect.TypeFor[V]()); err == nil && t.Scalar() {
		v = c.read(v).e
	}
	id := p.id(c)
	frame := c.Builtin("goframe")
	c.If(frame.Ne(0), func() {
		p.calls.Set(c, Key(id, frame), v)
	}, func() {
		depth := c.Let(p.depth.Get(c, id).Add(1))
		p.depth.Set(c, id, depth)
		p.calls.Set(c, Key(id, depth), v)
	})
}

// Leave runs body with the value that Enter kept, at the return of the same call.
func (p *Pair[V]) Leave(c *Ctx, body func(v Int)) {
	id := p.id(c)
	missed := func() { p.miss.Add(c, nil, 1) }
	frame := c.Builtin("goframe")
	c.If(frame.Ne(0), func() {
		p.calls.Take(c, Key(id, frame), body, missed)
	}, func() {
		p.depth.Find(c, id, func(d Int) {
			c.If(d.Le(1), func() { p.depth.Delete(c, id) }, func() { p.depth.Set(c, id, d.Sub(1)) })
			p.calls.Take(c, Key(id, d), body, missed)
		}, missed)
	})
}

// Missed returns how many returns had no entry.
func (p *Pair[V]) Missed(s bpf.Reader) (uint64, error) {
	t, err := p.miss.Table(s)
	if err != nil {
		return 0, err
	}
	snap, err := t.Snapshot()
	if err != nil || len(snap.Entries) == 0 {
		return 0, err
	}
	return snap.Entries[0].Value, nil
}
