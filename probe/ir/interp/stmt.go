package interp

import (
	"encoding/binary"
	"sort"
	"unsafe"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

func (r *run) stmt(s *typed.Stmt) (control, error) {
	switch s.Op {
	case ir.StmtLet:
		r.vars[s.Var] = r.expr(s.X)
	case ir.StmtIf:
		if r.expr(s.X).n != 0 {
			return r.block(s.Body)
		}
		return r.block(s.Else)
	case ir.StmtLoop:
		return r.loop(s)
	case ir.StmtForEach:
		return r.forEach(s)
	case ir.StmtBreak:
		return doBreak, nil
	case ir.StmtContinue:
		return doContinue, nil
	case ir.StmtReturn:
		return doReturn, nil
	case ir.StmtFind:
		return r.find(s)
	case ir.StmtSet:
		r.set(s)
	case ir.StmtDelete:
		delete(r.table(s.Map), r.key(s.Map, s.Key))
	case ir.StmtAdd:
		x := r.expr(s.X).n // before the entry is created: x may test whether it exists
		b := r.findOrCreate(s.Map, r.key(s.Map, s.Key), s.Map.Value.Size, s.Site)
		if b != nil {
			sum := fromBytes(s.Map.Value, b).n + x
			copy(b, toBytes(s.Map.Value, val{n: sum}))
		}
	case ir.StmtAgg:
		r.aggregate(s)
	case ir.StmtEmit:
		// The event has its place in the ring before it is evaluated: what fails then is behind it.
		at := len(r.Events[s.Map])
		r.Events[s.Map] = append(r.Events[s.Map], nil)
		r.Events[s.Map][at] = append([]byte(nil), toBytes(s.Map.Value, r.expr(s.X))...)
	case ir.StmtPacket:
		r.packet(s)
	case ir.StmtSignal:
		r.Signal = uint32(r.expr(s.X).n)
	case ir.StmtOverride:
		r.Return, r.Overridden = r.expr(s.X).n, true
	case ir.StmtSkip:
		r.Skipped = true
	case ir.StmtCookie:
		r.Cookie = r.expr(s.X).n
	case ir.StmtTrace:
		line := Traced{Format: s.Text}
		if s.X != nil {
			for _, a := range s.X.Args {
				line.Values = append(line.Values, toBytes(a.Type, r.expr(a)))
			}
		}
		r.Traced = append(r.Traced, line)
	case ir.StmtExit:
		r.ExitRequested = true
		r.Disabled = r.Disabled || s.Off
		if s.X != nil {
			r.ExitCode = int32(r.expr(s.X).n)
		}
	case ir.StmtEval:
		r.expr(s.X)
	}
	return goOn, nil
}

func (r *run) loop(s *typed.Stmt) (control, error) {
	n := min(r.expr(s.X).n, uint64(s.Max))
	for i := range n {
		r.vars[s.Var] = val{n: i}
		c, err := r.block(s.Body)
		if err != nil || c == doReturn {
			return c, err
		}
		if c == doBreak {
			break
		}
	}
	return goOn, nil
}

// forEach visits entries in the order of their keys. The kernel's order is unspecified.
func (r *run) forEach(s *typed.Stmt) (control, error) {
	t := r.table(s.Map)
	for _, k := range r.keys(s.Map) {
		v, ok := t[k]
		if !ok {
			continue
		}
		if s.Var != nil {
			r.vars[s.Var] = fromBytes(s.Var.Type, []byte(k))
		}
		if s.Var2 != nil {
			r.vars[s.Var2] = fromBytes(s.Var2.Type, append([]byte(nil), v...))
		}
		c, err := r.block(s.Body)
		if err != nil || c == doReturn {
			return c, err
		}
		if c == doBreak {
			break
		}
	}
	return goOn, nil
}

// keys returns a map's keys: all keys of an array in order, else those of the entries,
// sorted.
func (r *run) keys(m *ir.Map) []string {
	var keys []string
	if r.in.lay.Array(m) {
		for i := range r.in.lay.KernelEntries(m) {
			keys = append(keys, string(binary.LittleEndian.AppendUint32(nil, i)))
			r.entry(m, keys[i])
		}
		return keys
	}
	for k := range r.table(m) {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// table returns a map's entries.
func (r *run) table(m *ir.Map) map[string][]byte {
	t := r.Maps[m]
	if t == nil {
		t = map[string][]byte{}
		r.Maps[m] = t
	}
	return t
}

// key returns the bytes of a key.
func (r *run) key(m *ir.Map, key *typed.Node) string {
	if check.Storage(m) {
		return r.owner(m)
	}
	if key == nil {
		return "\x00\x00\x00\x00"
	}
	return string(toBytes(m.Key, r.expr(key)))
}

// lookup returns the value for a key, nil if there is none.
func (r *run) lookup(m *ir.Map, key *typed.Node) []byte { return r.entry(m, r.key(m, key)) }

// entry returns the value for a key, nil if there is none. It creates those of arrays, whose
// keys always exist, with zeros.
func (r *run) entry(m *ir.Map, key string) []byte {
	t := r.table(m)
	b := t[key]
	if b == nil && r.in.lay.Array(m) &&
		int64(binary.LittleEndian.Uint32([]byte(key))) < int64(r.in.lay.KernelEntries(m)) {
		b = make([]byte, check.ValueSize(m))
		t[key] = b
	}
	return b
}

func (r *run) findOrCreate(m *ir.Map, key string, size int, site uint32) []byte {
	if b := r.entry(m, key); b != nil {
		return b
	}
	if r.in.lay.Array(m) {
		return nil
	}
	return r.create(m, key, make([]byte, size), site)
}

// create adds an entry if there is room, and else counts it as lost.
func (r *run) create(m *ir.Map, key string, b []byte, site uint32) []byte {
	t := r.table(m)
	if !check.Storage(m) && uint32(len(t)) >= r.in.lay.KernelEntries(m) {
		r.Lost[m]++
		r.failed(site, -e2big)
		return nil
	}
	t[key] = b
	return b
}

func (r *run) find(s *typed.Stmt) (control, error) {
	key := r.key(s.Map, s.Key)
	b := r.entry(s.Map, key)
	if b == nil {
		return r.block(s.Else)
	}
	if s.Var != nil {
		r.vars[s.Var] = fromBytes(s.Var.Type, append([]byte(nil), b...))
	}
	if s.Delete {
		delete(r.table(s.Map), key)
	}
	return r.block(s.Body)
}

func (r *run) set(s *typed.Stmt) {
	v := append([]byte(nil), toBytes(s.Map.Value, r.expr(s.X))...)
	key := r.key(s.Map, s.Key)
	have := r.entry(s.Map, key)
	switch {
	case have != nil && s.Flag == ir.SetCreate, have == nil && s.Flag == ir.SetUpdate:
		if r.in.lay.Array(s.Map) {
			return
		}
	case have != nil:
		r.table(s.Map)[key] = v
	case r.in.lay.Array(s.Map):
		r.Lost[s.Map]++
	default:
		r.create(s.Map, key, v, s.Site)
	}
}

func (r *run) aggregate(s *typed.Stmt) {
	m := s.Map
	var x uint64
	if s.X != nil {
		x = r.expr(s.X).n
	}
	var key string
	var now uint64
	inner := m.Agg
	switch m.Agg {
	case ir.AggHist:
		key = r.bucketKey(s, eval.HistBucket(int64(x), m.Bits))
	case ir.AggLinear:
		key = r.bucketKey(s, eval.LinearBucket(int64(x), m.Min, m.Max, m.Step))
	case ir.AggSeries:
		inner = m.Inner
		key, now = r.seriesKey(s)
	default:
		key = r.key(m, s.Key)
	}
	b := r.findOrCreate(m, key, check.AggSize(m), s.Site)
	if b == nil {
		return
	}
	if inner == ir.AggLast {
		binary.LittleEndian.PutUint64(b, now)
		binary.LittleEndian.PutUint64(b[8:], x)
		return
	}
	update(inner, m.Signed, b, x)
}

func (r *run) bucketKey(s *typed.Stmt, i int) string {
	idx := binary.LittleEndian.AppendUint32(nil, uint32(i))
	if s.Map.Keyless() {
		return string(idx)
	}
	kt := check.KernelKey(s.Map)
	b := make([]byte, kt.Size)
	copy(b, r.key(s.Map, s.Key))
	copy(b[kt.Fields[1].Offset:], idx)
	return string(b)
}

func (r *run) seriesKey(s *typed.Stmt) (key string, now uint64) {
	kt := check.KernelKey(s.Map)
	b := make([]byte, kt.Size)
	if !s.Map.Keyless() {
		copy(b, r.key(s.Map, s.Key))
	}
	switch {
	case s.Time != nil:
		now = r.expr(s.Time).n
	case r.Builtin != nil:
		now = r.Builtin("nsecs")
	}
	binary.LittleEndian.PutUint64(b[kt.Fields[len(kt.Fields)-1].Offset:], now/uint64(s.Map.Interval))
	return string(b), now
}

// update adds x to an aggregation's value, as codegen's runtime.update does.
func update(a ir.Agg, signed bool, b []byte, x uint64) {
	le := binary.LittleEndian
	add := func(off int, n uint64) { le.PutUint64(b[off:], le.Uint64(b[off:])+n) }
	raise := func(off int, n uint64) { le.PutUint64(b[off:], max(le.Uint64(b[off:]), n)) }
	switch a {
	case ir.AggSum:
		add(0, x)
	case ir.AggMin, ir.AggMax:
		raise(ir.AggFirst, eval.Measure(a == ir.AggMin, signed, x))
		add(ir.AggDone, 1)
	case ir.AggAvg:
		add(16, 1)
		add(ir.AggFirst, x)
		add(ir.AggDone, 1)
	case ir.AggStats:
		add(32, 1)
		add(ir.AggFirst, x)
		raise(16, eval.Measure(true, signed, x))
		raise(24, eval.Measure(false, signed, x))
		add(ir.AggDone, 1)
	default:
		add(0, 1)
	}
}

// owner returns the key of a storage's value in the interpreter: the current thread or
// cgroup.
func (r *run) owner(m *ir.Map) string {
	name := "tid"
	if m.Kind == ir.MapCgroupStorage {
		name = "cgroup"
	}
	id := uint64(0)
	if r.Builtin != nil {
		id = r.Builtin(name)
	}
	return string(binary.LittleEndian.AppendUint64(nil, id))
}

// packet emits the bytes of a packet that Machine.Packet returns.
func (r *run) packet(s *typed.Stmt) {
	skb := r.expr(s.Key).n
	if skb == 0 {
		return
	}
	b := append([]byte(nil), r.expr(s.X).b...)
	data := make([]byte, binary.LittleEndian.Uint32(b[unsafe.Offsetof(ir.PacketHead{}.Captured):]))
	if r.Packet != nil {
		copy(data, r.Packet(skb, len(data)))
	}
	r.Events[s.Map] = append(r.Events[s.Map], append(b, data...))
}
