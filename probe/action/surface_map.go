package action

import (
	"fmt"
	"reflect"
)

// Hash is a map that the program keeps for itself and that can be read from Go:
// keys K, values V, in Go's own layout. Make it with NewHash, NewLRU, NewArray
// or NewCell. One Hash may be used in several actions of one program.
type Hash[K comparable, V any] struct {
	m   *Map
	err error
}

func newHash[K comparable, V any](name string, kind MapKind, entries int) *Hash[K, V] {
	h := &Hash[K, V]{m: &Map{Name: name, Kind: kind, Entries: entries, Pos: callerPos()}}
	if h.m.Key, h.err = keyType[K](); h.err == nil {
		h.m.Value, h.err = TypeFor(reflect.TypeFor[V]())
	}
	return h
}

// NewHash returns a map with room for entries keys (0: DefaultEntries). What
// finds no room is not stored, and counted (Stats.Full).
func NewHash[K comparable, V any](name string, entries int) *Hash[K, V] {
	return newHash[K, V](name, MapHash, entries)
}

// NewLRU returns a map that evicts what was used least recently when it is full.
func NewLRU[K comparable, V any](name string, entries int) *Hash[K, V] {
	return newHash[K, V](name, MapLRU, entries)
}

// NewArray returns a map of the keys 0 to entries-1, all of which are there.
func NewArray[V any](name string, entries int) *Hash[uint32, V] {
	return newHash[uint32, V](name, MapArray, entries)
}

// NewCell returns a single value that all CPUs share.
func NewCell[V any](name string) *Hash[None, V] { return newHash[None, V](name, MapArray, 1) }

// Map is the IR's map.
func (h *Hash[K, V]) Map() *Map { return h.m }

// check reports mistakes that were made when the map was declared.
func (h *Hash[K, V]) check(c *Ctx) {
	if h.err != nil {
		c.errorf("map %s: %w", h.m.Name, h.err)
	}
}

// key is the expression of a key, nil where the map has none.
func (h *Hash[K, V]) key(c *Ctx, key any) *Expr {
	h.check(c)
	if key == nil {
		return nil
	}
	return lift(key)
}

// Set stores a value. The key of a cell is nil.
func (h *Hash[K, V]) Set(c *Ctx, key, value any) {
	c.Do(&Stmt{Op: StmtSet, Map: h.m, Key: h.key(c, key), X: lift(value)})
}

// Create stores a value if there is none yet.
func (h *Hash[K, V]) Create(c *Ctx, key, value any) {
	c.Do(&Stmt{Op: StmtSet, Flag: SetCreate, Map: h.m, Key: h.key(c, key), X: lift(value)})
}

// Get reads a value, zero if there is none.
func (h *Hash[K, V]) Get(c *Ctx, key any) Int {
	e := &Expr{Op: OpMapGet, Map: h.m, Pos: callerPos()}
	if k := h.key(c, key); k != nil {
		e.Args = []*Expr{k}
	}
	return c.read(e)
}

// Has says whether there is a value.
func (h *Hash[K, V]) Has(c *Ctx, key any) Bool {
	e := &Expr{Op: OpMapHas, Map: h.m, Pos: callerPos()}
	if k := h.key(c, key); k != nil {
		e.Args = []*Expr{k}
	}
	return Bool(c.read(e))
}

// Delete removes an entry, if there is one.
func (h *Hash[K, V]) Delete(c *Ctx, key any) {
	c.Do(&Stmt{Op: StmtDelete, Map: h.m, Key: h.key(c, key)})
}

// Add adds to a value atomically; where there is none it begins at 0.
func (h *Hash[K, V]) Add(c *Ctx, key, delta any) {
	c.Do(&Stmt{Op: StmtAdd, Map: h.m, Key: h.key(c, key), X: lift(delta)})
}

// Find does found with the value if there is one, and otherwise what the
// functions in missing do. Of values that are structs, Int.Elem picks a field.
func (h *Hash[K, V]) Find(c *Ctx, key any, found func(v Int), missing ...func()) {
	h.find(c, key, found, missing, false)
}

// Take is Find that removes the entry: what one event left for another.
func (h *Hash[K, V]) Take(c *Ctx, key any, found func(v Int), missing ...func()) {
	h.find(c, key, found, missing, true)
}

func (h *Hash[K, V]) find(c *Ctx, key any, found func(v Int), missing []func(), remove bool) {
	s := &Stmt{Op: StmtFind, Map: h.m, Key: h.key(c, key), Var: c.newVar("f"), Delete: remove, Pos: callerPos()}
	s.Body = c.block(func() {
		if found != nil {
			found(Int{c, NewVar(s.Var)})
		}
	})
	for _, f := range missing {
		s.Else = append(s.Else, c.block(f)...)
	}
	c.Do(s)
}

// ForEach does body for every entry (Linux 5.13). Entries that come or go
// meanwhile may be seen or not.
func (h *Hash[K, V]) ForEach(c *Ctx, body func(key, value Int)) {
	h.check(c)
	s := &Stmt{Op: StmtForEach, Map: h.m, Var: c.newVar("k"), Var2: c.newVar("e"), Pos: callerPos()}
	s.Body = c.block(func() { body(Int{c, NewVar(s.Var)}, Int{c, NewVar(s.Var2)}) })
	c.Do(s)
}

// agg is what the aggregating maps have in common.
type agg[K comparable] struct {
	m   *Map
	err error
}

func newAgg[K comparable](name string, a Agg, entries int) agg[K] {
	g := agg[K]{m: &Map{Name: name, Kind: MapPerCPUHash, Agg: a, Entries: entries, Signed: true, Pos: callerPos()}}
	g.m.Key, g.err = keyType[K]()
	return g
}

// Map is the IR's map.
func (g *agg[K]) Map() *Map { return g.m }

func (g *agg[K]) add(c *Ctx, value *Expr, key []any) {
	if g.err != nil {
		c.errorf("map %s: %w", g.m.Name, g.err)
	}
	c.Do(&Stmt{Op: StmtAgg, Map: g.m, Key: keyExpr(g.m, key), X: value})
}

// Counter counts events by key.
type Counter[K comparable] struct{ agg[K] }

// NewCounter returns a counter with room for entries keys (0: DefaultEntries).
func NewCounter[K comparable](name string, entries int) *Counter[K] {
	return &Counter[K]{newAgg[K](name, AggCount, entries)}
}

// NewCount returns a counter without keys.
func NewCount(name string) *Counter[None] { return NewCounter[None](name, 1) }

// Inc counts an event. Of a key that is a struct, pass the fields in order.
func (n *Counter[K]) Inc(c *Ctx, key ...any) { n.add(c, nil, key) }

// Number sums values by key, or keeps the least or the greatest.
type Number[K comparable] struct{ agg[K] }

// NewSum returns sums with room for entries keys.
func NewSum[K comparable](name string, entries int) *Number[K] {
	return &Number[K]{newAgg[K](name, AggSum, entries)}
}

// NewMin returns least values with room for entries keys.
func NewMin[K comparable](name string, entries int) *Number[K] {
	return &Number[K]{newAgg[K](name, AggMin, entries)}
}

// NewMax returns greatest values with room for entries keys.
func NewMax[K comparable](name string, entries int) *Number[K] {
	return &Number[K]{newAgg[K](name, AggMax, entries)}
}

// Observe adds a value. Of a key that is a struct, pass the fields in order.
func (n *Number[K]) Observe(c *Ctx, value any, key ...any) { n.add(c, lift(value), key) }

// Summary keeps count, sum, least and greatest value by key.
type Summary[K comparable] struct{ agg[K] }

// NewAvg returns counts and sums with room for entries keys.
func NewAvg[K comparable](name string, entries int) *Summary[K] {
	return &Summary[K]{newAgg[K](name, AggAvg, entries)}
}

// NewStats returns counts, sums, least and greatest values with room for
// entries keys.
func NewStats[K comparable](name string, entries int) *Summary[K] {
	return &Summary[K]{newAgg[K](name, AggStats, entries)}
}

// Observe adds a value. Of a key that is a struct, pass the fields in order.
func (n *Summary[K]) Observe(c *Ctx, value any, key ...any) { n.add(c, lift(value), key) }

// Hist is a histogram by key.
type Hist[K comparable] struct{ agg[K] }

// NewHist returns a histogram without keys whose buckets are powers of two.
func NewHist(name string) *Hist[None] { return NewHistBy[None](name, 1) }

// NewHistBy returns histograms by key. entries is how many buckets of all keys
// there is room for, because only buckets that were hit take any.
func NewHistBy[K comparable](name string, entries int) *Hist[K] {
	return &Hist[K]{newAgg[K](name, AggHist, entries)}
}

// Sub divides every power of two in 2^k buckets (0 <= k <= 5), and returns h.
func (h *Hist[K]) Sub(k int) *Hist[K] {
	h.m.Bits = k
	return h
}

// NewLinear returns a histogram without keys, from lo to hi in steps.
func NewLinear(name string, lo, hi, step int64) *Hist[None] {
	return NewLinearBy[None](name, 1, lo, hi, step)
}

// NewLinearBy returns linear histograms by key; entries as of NewHistBy.
func NewLinearBy[K comparable](name string, entries int, lo, hi, step int64) *Hist[K] {
	h := &Hist[K]{newAgg[K](name, AggLinear, entries)}
	h.m.Min, h.m.Max, h.m.Step = lo, hi, step
	return h
}

// Observe adds a value. Of a key that is a struct, pass the fields in order.
func (h *Hist[K]) Observe(c *Ctx, value any, key ...any) { h.add(c, lift(value), key) }

// Events is a stream of events of type T, in Go's own layout, over a ring
// buffer. What finds no room in it is counted, by CPU.
type Events[T any] struct {
	m   *Map
	err error
}

// NewEvents returns a stream over a ring buffer of size bytes (0: DefaultBuffer),
// rounded up to a power of two.
func NewEvents[T any](name string, size int) *Events[T] {
	e := &Events[T]{m: &Map{Name: name, Kind: MapRing, Entries: size, Pos: callerPos()}}
	e.m.Value, e.err = TypeFor(reflect.TypeFor[T]())
	if e.err == nil && e.m.Value.Kind != KindTuple {
		e.err = fmt.Errorf("events are structs, not %s", reflect.TypeFor[T]())
	}
	return e
}

// UsePerfBuffer makes the stream a perf buffer, one for each CPU, of size bytes
// each as given to NewEvents, and returns ev. Each CPU's events are then in
// order, but not those of several, and an event is copied once more.
func (ev *Events[T]) UsePerfBuffer() *Events[T] {
	ev.m.Kind = MapPerf
	return ev
}

// Map is the IR's map.
func (ev *Events[T]) Map() *Map { return ev.m }

// Emit emits an event. build is called once, now, with an event whose fields it
// binds to values: b.Set(&e.PID, c.PID()). Fields that are not bound are zero.
func (ev *Events[T]) Emit(c *Ctx, build func(e *T, b *Bind)) {
	if ev.err != nil {
		c.errorf("events %s: %w", ev.m.Name, ev.err)
		return
	}
	var sample T
	b := &Bind{c: c, base: reflect.ValueOf(&sample).Elem(), t: ev.m.Value, vals: make([]*Expr, len(ev.m.Value.Fields))}
	pos := callerPos()
	build(&sample, b)
	x := &Expr{Op: OpTuple, Type: ev.m.Value, Pos: pos}
	for i, v := range b.vals {
		if v == nil {
			v = zeroOf(ev.m.Value.Fields[i].Type)
		}
		x.Args = append(x.Args, v)
	}
	c.Do(&Stmt{Op: StmtEmit, Map: ev.m, X: x, Pos: pos})
}

// zeroOf is the zero value of a type.
func zeroOf(t Type) *Expr {
	switch t.Kind {
	case KindTuple:
		e := &Expr{Op: OpTuple, Type: t}
		for _, f := range t.Fields {
			e.Args = append(e.Args, zeroOf(f.Type))
		}
		return e
	case KindBytes:
		return &Expr{Op: OpCast, Type: t, Args: []*Expr{{Op: OpString, Type: StringType(1)}}}
	}
	return &Expr{Op: OpConst, Type: t}
}

// Bind binds the fields of an event to values.
type Bind struct {
	c    *Ctx
	base reflect.Value
	t    Type
	vals []*Expr
}

// Set binds the field that field points to, which is one of the event that
// Emit's function was given. Numbers are converted to the field's width, text
// must fit a [N]byte.
func (b *Bind) Set(field, value any) {
	p := reflect.ValueOf(field)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		b.c.errorf("event field: %T is not a pointer to a field", field)
		return
	}
	for i := range b.base.NumField() {
		f := b.base.Field(i)
		if f.Addr().UnsafePointer() == p.UnsafePointer() && f.Type() == p.Type().Elem() {
			b.vals[i] = lift(value)
			return
		}
	}
	b.c.errorf("event field: %T does not point to a field of %s", field, b.base.Type())
}
