package action

import (
	"fmt"
	"reflect"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Hash is a map that the program keeps and that Go can read: keys K and values V, in Go's own
// layout. It is made by NewHash, NewLRU, NewArray or NewCell. Several actions of one program
// may use the same Hash.
type Hash[K comparable, V any] struct {
	m   *ir.Map
	err error
}

func newHash[K comparable, V any](name string, kind ir.MapKind, entries int) *Hash[K, V] {
	h := &Hash[K, V]{m: &ir.Map{Name: name, Kind: kind, Entries: entries, Pos: callerPos()}}
	if h.m.Key, h.err = keyType[K](); h.err == nil {
		h.m.Value, h.err = ir.TypeFor(reflect.TypeFor[V]())
	}
	return h
}

// NewHash returns a map with room for entries keys (0: ir.DefaultEntries). Entries that find
// no room are not stored, and are counted (Stats.Full).
func NewHash[K comparable, V any](name string, entries int) *Hash[K, V] {
	return newHash[K, V](name, ir.MapHash, entries)
}

// NewLRU returns a map that evicts the least recently used entries when it is full.
func NewLRU[K comparable, V any](name string, entries int) *Hash[K, V] {
	return newHash[K, V](name, ir.MapLRU, entries)
}

// NewArray returns a map of the keys 0 to entries-1, which always exist.
func NewArray[V any](name string, entries int) *Hash[uint32, V] {
	return newHash[uint32, V](name, ir.MapArray, entries)
}

// NewCell returns a single value that all CPUs share.
func NewCell[V any](name string) *Hash[None, V] { return newHash[None, V](name, ir.MapArray, 1) }

// Map returns the IR's map.
func (h *Hash[K, V]) Map() *ir.Map { return h.m }

// check reports mistakes that were made when the map was declared.
func (h *Hash[K, V]) check(c *Ctx) {
	if h.err != nil {
		c.errorf("map %s: %w", h.m.Name, h.err)
	}
}

// key returns the expression of a key, nil where the map has none.
func (h *Hash[K, V]) key(c *Ctx, key any) *ir.Expr {
	h.check(c)
	if key == nil {
		return nil
	}
	return lift(key)
}

// Set stores a value. The key of a cell is nil.
func (h *Hash[K, V]) Set(c *Ctx, key, value any) {
	c.Do(&ir.Stmt{Op: ir.StmtSet, Map: h.m, Key: h.key(c, key), X: lift(value)})
}

// Create stores a value if the key has none yet.
func (h *Hash[K, V]) Create(c *Ctx, key, value any) {
	c.Do(&ir.Stmt{Op: ir.StmtSet, Flag: ir.SetCreate, Map: h.m, Key: h.key(c, key), X: lift(value)})
}

// Get reads a value; it is zero if the key has none.
func (h *Hash[K, V]) Get(c *Ctx, key any) Int {
	e := &ir.Expr{Op: ir.OpMapGet, Map: h.m, Pos: callerPos()}
	if k := h.key(c, key); k != nil {
		e.Args = []*ir.Expr{k}
	}
	return c.read(e)
}

// Has reports whether the key has a value.
func (h *Hash[K, V]) Has(c *Ctx, key any) Bool {
	e := &ir.Expr{Op: ir.OpMapHas, Map: h.m, Pos: callerPos()}
	if k := h.key(c, key); k != nil {
		e.Args = []*ir.Expr{k}
	}
	return Bool(c.read(e))
}

// Delete removes an entry, if there is one.
func (h *Hash[K, V]) Delete(c *Ctx, key any) {
	c.Do(&ir.Stmt{Op: ir.StmtDelete, Map: h.m, Key: h.key(c, key)})
}

// Add adds to a value atomically. A missing value counts as 0.
func (h *Hash[K, V]) Add(c *Ctx, key, delta any) {
	c.Do(&ir.Stmt{Op: ir.StmtAdd, Map: h.m, Key: h.key(c, key), X: lift(delta)})
}

// Find runs found with the value if the key has one, and the functions in missing otherwise.
// If values are structs, Int.Elem selects a field.
func (h *Hash[K, V]) Find(c *Ctx, key any, found func(v Int), missing ...func()) {
	h.find(c, key, found, missing, false)
}

// Take is Find that also removes the entry. It takes what one event left for another.
func (h *Hash[K, V]) Take(c *Ctx, key any, found func(v Int), missing ...func()) {
	h.find(c, key, found, missing, true)
}

func (h *Hash[K, V]) find(c *Ctx, key any, found func(v Int), missing []func(), remove bool) {
	s := &ir.Stmt{
		Op: ir.StmtFind, Map: h.m, Key: h.key(c, key), Var: c.newVar("f"), Delete: remove,
		Pos: callerPos(),
	}
	s.Body = c.block(func() {
		if found != nil {
			found(Int{c, ir.NewVar(s.Var)})
		}
	})
	for _, f := range missing {
		s.Else = append(s.Else, c.block(f)...)
	}
	c.Do(s)
}

// ForEach runs body for every entry (Linux 5.13). Entries that are added or removed meanwhile
// may be seen or not.
func (h *Hash[K, V]) ForEach(c *Ctx, body func(key, value Int)) {
	h.check(c)
	s := &ir.Stmt{
		Op: ir.StmtForEach, Map: h.m, Var: c.newVar("k"), Var2: c.newVar("e"),
		Pos: callerPos(),
	}
	s.Body = c.block(func() { body(Int{c, ir.NewVar(s.Var)}, Int{c, ir.NewVar(s.Var2)}) })
	c.Do(s)
}

// Len returns the number of entries, which it counts one by one (Linux 5.13).
func (h *Hash[K, V]) Len(c *Ctx) Int {
	n := c.NewVar(0)
	h.check(c)
	s := &ir.Stmt{Op: ir.StmtForEach, Map: h.m, Pos: callerPos()}
	s.Body = c.block(func() { n.Set(n.Int().Add(1)) })
	c.Do(s)
	return n.Int()
}

// Table returns the map as a table of keys and values. A cell has one entry.
func (h *Hash[K, V]) Table(s bpf.Reader) (mapx.Table[K, V], error) {
	return bpf.HashTable[K, V](s, h.m)
}

// agg is what the aggregating maps have in common.
type agg[K comparable] struct {
	m   *ir.Map
	err error
}

func newAgg[K comparable](name string, a ir.Agg, entries int) agg[K] {
	g := agg[K]{m: &ir.Map{
		Name: name, Kind: ir.MapPerCPUHash, Agg: a, Entries: entries, Signed: true,
		Pos: callerPos(),
	}}
	g.m.Key, g.err = keyType[K]()
	return g
}

// Map returns the IR's map.
func (g *agg[K]) Map() *ir.Map { return g.m }

func (g *agg[K]) add(c *Ctx, value *ir.Expr, key []any) {
	if g.err != nil {
		c.errorf("map %s: %w", g.m.Name, g.err)
	}
	c.Do(&ir.Stmt{Op: ir.StmtAgg, Map: g.m, Key: keyExpr(g.m, key), X: value})
}

// perCPU folds the values that each CPU has for an aggregation's key, at offset off.
func (g *agg[K]) perCPU(c *Ctx, off int, key []any, fold func(acc *LocalVar, v Int)) Int {
	acc := c.NewVar(0)
	k := c.keyOnce(keyExpr(g.m, key))
	c.Loop(c.Builtin("ncpus"), maxCPUs, func(cpu Int) {
		e := &ir.Expr{Op: ir.OpMapCPU, Map: g.m, Int: int64(off), Pos: callerPos()}
		if k != nil {
			e.Args = append(e.Args, k)
		}
		e.Args = append(e.Args, cpu.Expr())
		fold(acc, c.read(e))
	})
	return acc.Int()
}

// maxCPUs bounds a loop over all CPUs: CONFIG_NR_CPUS is at most 8192.
const maxCPUs = 8192

// keyOnce reads a key once for a loop.
func (c *Ctx) keyOnce(k *ir.Expr) *ir.Expr {
	if k == nil || k.Op == ir.OpConst {
		return k
	}
	return c.read(k).e
}

func (g *agg[K]) sumCPU(c *Ctx, off int, key []any) Int {
	return g.perCPU(c, off, key, func(acc *LocalVar, v Int) {
		acc.Set(acc.Int().Add(v).As(ir.Int64Type()))
	})
}

// Flip makes ReadAndClear of the aggregation's table exact, and Windows possible: see ir.Map.Flip.
// Call it before Attach.
func (g *agg[K]) Flip() { g.m.Flip = true }

// Counter counts events by key.
type Counter[K comparable] struct{ agg[K] }

// NewCounter returns a counter with room for entries keys (0: ir.DefaultEntries).
func NewCounter[K comparable](name string, entries int) *Counter[K] {
	return &Counter[K]{newAgg[K](name, ir.AggCount, entries)}
}

// NewCount returns a counter without keys.
func NewCount(name string) *Counter[None] { return NewCounter[None](name, 1) }

// Inc counts an event. For a key that is a struct, pass the fields in order.
func (n *Counter[K]) Inc(c *Ctx, key ...any) { n.add(c, nil, key) }

// Value returns the count so far, over all CPUs, which are read one after the other (Linux
// 5.19).
func (n *Counter[K]) Value(c *Ctx, key ...any) Int { return n.sumCPU(c, 0, key) }

// Table returns the counts by key.
func (n *Counter[K]) Table(s bpf.Reader) (mapx.Table[K, uint64], error) {
	return bpf.CountTable[K](s, n.m)
}

// Aggregate keeps one number for each key: the sum, the minimum or the maximum of values.
type Aggregate[K comparable] struct{ agg[K] }

// NewSum returns sums with room for entries keys (0: ir.DefaultEntries).
func NewSum[K comparable](name string, entries int) *Aggregate[K] {
	return &Aggregate[K]{newAgg[K](name, ir.AggSum, entries)}
}

// NewMin returns minima with room for entries keys (0: ir.DefaultEntries). They are exact
// over all threads and CPUs. The one exception is kernels without atomic exchange (before
// Linux 5.12, on arm64 before 5.18): a value that a program in an interrupt or NMI observes
// between two instructions of another program's update of the same key on the same CPU may be
// overwritten.
func NewMin[K comparable](name string, entries int) *Aggregate[K] {
	return &Aggregate[K]{newAgg[K](name, ir.AggMin, entries)}
}

// NewMax returns maxima with room for entries keys; they are as exact as those of NewMin.
func NewMax[K comparable](name string, entries int) *Aggregate[K] {
	return &Aggregate[K]{newAgg[K](name, ir.AggMax, entries)}
}

// Observe adds a value. For a key that is a struct, pass the fields in order.
func (n *Aggregate[K]) Observe(c *Ctx, value any, key ...any) { n.add(c, lift(value), key) }

// Value returns the sum, minimum or maximum so far, over all CPUs, which are read one after
// the other (Linux 5.19). It is 0 if nothing was observed.
func (n *Aggregate[K]) Value(c *Ctx, key ...any) Int {
	if n.m.Agg == ir.AggSum {
		return n.sumCPU(c, 0, key)
	}
	best := n.perCPU(c, ir.AggFirst, key, func(acc *LocalVar, v Int) {
		c.If(v.As(ir.Uint64Type()).Gt(acc.Int().As(ir.Uint64Type())), func() {
			acc.Set(v.As(ir.Int64Type()))
		})
	})
	flip := int64(-1 << 63)
	if n.m.Agg == ir.AggMin {
		flip = 1<<63 - 1 // complement and sign: see measure
	}
	value := best.As(ir.Int64Type()).Xor(flip).As(ir.Int64Type())
	return Select(best.Ne(0), value, 0)
}

// Table returns the sums, minima or maxima by key.
func (n *Aggregate[K]) Table(s bpf.Reader) (mapx.Table[K, int64], error) {
	return bpf.NumberTable[K](s, n.m)
}

// Summary keeps the count, sum, minimum and maximum of values by key.
type Summary[K comparable] struct{ agg[K] }

// NewAvg returns counts and sums with room for entries keys.
func NewAvg[K comparable](name string, entries int) *Summary[K] {
	return &Summary[K]{newAgg[K](name, ir.AggAvg, entries)}
}

// NewStats returns counts, sums, minima and maxima with room for entries keys. Counts and
// sums are exact; minima and maxima are as exact as those of NewMin.
func NewStats[K comparable](name string, entries int) *Summary[K] {
	return &Summary[K]{newAgg[K](name, ir.AggStats, entries)}
}

// Mean returns the average so far, over all CPUs, which are read one after the other (Linux
// 5.19). It is 0 if nothing was observed.
func (n *Summary[K]) Mean(c *Ctx, key ...any) Int {
	count := n.sumCPU(c, ir.AggDone, key)
	return n.sumCPU(c, ir.AggFirst, key).Div(count.As(ir.Int64Type()))
}

// Observe adds a value. For a key that is a struct, pass the fields in order.
func (n *Summary[K]) Observe(c *Ctx, value any, key ...any) { n.add(c, lift(value), key) }

// Table returns the summaries by key. A summary that was copied in the middle of an update is
// read again, for seconds at most: see bpf.ErrTorn.
func (n *Summary[K]) Table(s bpf.Reader) (mapx.Table[K, bpf.Stat], error) {
	return bpf.StatTable[K](s, n.m)
}

// Hist is a histogram by key.
type Hist[K comparable] struct{ agg[K] }

// NewHist returns histograms by key whose buckets are powers of two. entries is the room for
// buckets, over all keys; only buckets with values take room.
func NewHist[K comparable](name string, entries int) *Hist[K] {
	return &Hist[K]{newAgg[K](name, ir.AggHist, entries)}
}

// Sub divides every power of two into 2^k buckets (0 <= k <= 5), and returns h.
func (h *Hist[K]) Sub(k int) *Hist[K] {
	h.m.Bits = k
	return h
}

// NewLinear returns histograms by key whose buckets go from lo to hi in steps of step.
// entries is as in NewHist.
func NewLinear[K comparable](name string, entries int, lo, hi, step int64) *Hist[K] {
	h := &Hist[K]{newAgg[K](name, ir.AggLinear, entries)}
	h.m.Min, h.m.Max, h.m.Step = lo, hi, step
	return h
}

// Observe adds a value. For a key that is a struct, pass the fields in order.
func (h *Hist[K]) Observe(c *Ctx, value any, key ...any) { h.add(c, lift(value), key) }

// Table returns the histograms by key: their buckets that are not empty, ascending.
func (h *Hist[K]) Table(s bpf.Reader) (mapx.Table[K, []hist.Bucket], error) {
	return bpf.HistTable[K](s, h.m)
}

// Events is a stream of events of type T, in Go's own layout, over a ring buffer. Events that
// find no room in it are counted by CPU.
type Events[T any] struct {
	m   *ir.Map
	err error
}

// NewEvents returns a stream over a ring buffer of size bytes (0: ir.DefaultBuffer), rounded
// up to a power of two.
func NewEvents[T any](name string, size int) *Events[T] {
	e := &Events[T]{m: &ir.Map{Name: name, Kind: ir.MapRing, Entries: size, Pos: callerPos()}}
	e.m.Value, e.err = ir.TypeFor(reflect.TypeFor[T]())
	if e.err == nil && e.m.Value.Kind != ir.KindTuple {
		e.err = fmt.Errorf("events are structs, not %s", reflect.TypeFor[T]())
	}
	return e
}

// UsePerfBuffer makes the stream a perf buffer for each CPU, each of the size given to
// NewEvents, and returns ev. Events of one CPU are then in order, events of several CPUs are
// not, and each event is copied once more.
func (ev *Events[T]) UsePerfBuffer() *Events[T] {
	ev.m.Kind = ir.MapPerf
	return ev
}

// Emit emits an event. It calls build once, before it returns, with an event whose fields
// build binds to values: b.Set(&e.PID, c.PID()). Fields that are not bound are zero.
func (ev *Events[T]) Emit(c *Ctx, build func(e *T, b *Bind)) {
	if ev.err != nil {
		c.errorf("events %s: %w", ev.m.Name, ev.err)
		return
	}
	var sample T
	b := &Bind{c: c, base: reflect.ValueOf(&sample).Elem(), vals: map[bound]*ir.Expr{}}
	pos := callerPos()
	build(&sample, b)
	c.Do(&ir.Stmt{Op: ir.StmtEmit, Map: ev.m, X: b.value(b.base, ev.m.Value, pos), Pos: pos})
}

// zeroOf returns the zero value of a type.
func zeroOf(t ir.Type) *ir.Expr {
	switch t.Kind {
	case ir.KindTuple:
		e := &ir.Expr{Op: ir.OpTuple, Type: t}
		for _, f := range t.Fields {
			e.Args = append(e.Args, zeroOf(f.Type))
		}
		return e
	case ir.KindBytes:
		return &ir.Expr{
			Op: ir.OpCast, Type: t,
			Args: []*ir.Expr{{Op: ir.OpString, Type: ir.StringType(1)}},
		}
	}
	return &ir.Expr{Op: ir.OpConst, Type: t}
}

// Bind binds the fields of an event to values.
type Bind struct {
	c    *Ctx
	base reflect.Value
	vals map[bound]*ir.Expr
}

// bound is a field of the sample event. It has a type because a struct and its first field
// have the same address.
type bound struct {
	at  uintptr
	typ reflect.Type
}

// Set binds the field that field points to. It must be a field of the event that Emit's
// function was given, or of a struct or an array in it. Numbers are converted to the field's
// width; text must fit a [N]byte.
func (b *Bind) Set(field, value any) {
	p := reflect.ValueOf(field)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		b.c.errorf("event field: %T is not a pointer to a field", field)
		return
	}
	if !holdsField(b.base, p) {
		b.c.errorf("event field: %T does not point to a field of %s", field, b.base.Type())
		return
	}
	b.vals[bound{p.Pointer(), p.Type().Elem()}] = lift(value)
}

// parts returns the fields of a struct, or the elements of an array that programs see as a
// tuple.
func parts(v reflect.Value) (n int, part func(int) reflect.Value) {
	switch k := v.Kind(); {
	case k == reflect.Struct:
		return v.NumField(), v.Field
	case k == reflect.Array && v.Type().Elem().Kind() != reflect.Uint8 &&
		v.Type().Elem().Kind() != reflect.Uint64:
		return v.Len(), v.Index
	}
	return 0, nil
}

// holdsField reports whether p points to a part of v, at any depth.
func holdsField(v, p reflect.Value) bool {
	n, part := parts(v)
	for i := range n {
		f := part(i)
		if f.Addr().Pointer() == p.Pointer() && f.Type() == p.Type().Elem() || holdsField(f, p) {
			return true
		}
	}
	return false
}

// value returns the expression of a value: what was bound to it, or else its parts.
func (b *Bind) value(v reflect.Value, t ir.Type, pos ir.Pos) *ir.Expr {
	if x := b.vals[bound{v.Addr().Pointer(), v.Type()}]; x != nil {
		return x
	}
	n, part := parts(v)
	if n == 0 {
		return zeroOf(t)
	}
	x := &ir.Expr{Op: ir.OpTuple, Type: t, Pos: pos}
	for i := range n {
		x.Args = append(x.Args, b.value(part(i), t.Fields[i].Type, pos))
	}
	return x
}
