package action

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
)

// bpfNoPrealloc is BPF_F_NO_PREALLOC.
const bpfNoPrealloc = 1

// Names of the maps that every program has beside its own.
const (
	ctlMap     = ".control" // switches: see ctlDisabled and what follows
	statsMap   = ".counts"  // per CPU: what was lost, see the cnt constants
	scratchMap = ".scratch" // per CPU: values that do not fit the stack
	budgetMap  = ".budget"  // per CPU: what was used of the budget
)

// Counters, as indexes into statsMap. Behind the last come the losses of the
// program's maps, in order.
const (
	cntFaults = iota
	cntTruncated
	cntNoScratch
	cntLimited
	cntThrottled
	cntUnwalked
	cntBroken
	cntBusy
	cntMaps
)

// DefaultEntries is how many keys a map has room for whose size nobody gave, as
// in bpftrace: making 10,240 takes 4 ms of a program's start. DefaultBuffer is
// the size of a buffer in bytes.
const (
	DefaultEntries = 4096
	DefaultBuffer  = 256 << 10
)

// EachProbe, as the entries of a hash or an aggregation, makes room for as many
// keys as the plan has probes: for what is kept by Ctx.Probe.
const EachProbe = -1

// layout says which maps a program has and where their counters are.
type layout struct {
	maps   []*Map
	index  map[*Map]int
	probes int // of the plan
}

// newLayout lays out the maps of a program; without a plan only their
// declarations are checked.
func newLayout(p *Program, plan *probe.Plan) (*layout, error) {
	l := &layout{maps: p.AllMaps(), index: map[*Map]int{}}
	if plan != nil {
		for i := range plan.Programs {
			l.probes += len(plan.Programs[i].Sites)
		}
	}
	names := map[string]bool{ctlMap: true, statsMap: true, scratchMap: true, budgetMap: true}
	for i, m := range l.maps {
		if err := validMap(m); err != nil {
			return nil, at(m.Pos, "map "+m.Name, err)
		}
		if n := l.kernelEntries(m); isHash(kernelKind(m)) && n > maxHash {
			return nil, at(m.Pos, "map "+m.Name, fmt.Errorf("%d entries: a hash of the kernel has room for %d at most", n, maxHash))
		}
		if names[m.Name] {
			return nil, at(m.Pos, "map "+m.Name, fmt.Errorf("the name is taken"))
		}
		names[m.Name] = true
		l.index[m] = i
	}
	return l, nil
}

// maxHash is the number of buckets, and so of entries, beyond which the kernel
// refuses a hash with E2BIG (htab_map_alloc, kernel/bpf/hashtab.c).
const maxHash = 1 << 27

func isHash(t ebpf.MapType) bool {
	switch t {
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		return true
	}
	return false
}

// stackClasses are the depths for which an aggregation by stack has maps of its
// own, beside the one for the full depth: hashing a key takes time by its size,
// and most stacks are shallow.
var stackClasses = []int{8, 24}

// classesOf are the classes that a map has: those smaller than its key, if its
// key is a stack.
func classesOf(m *Map) []int {
	var out []int
	if m.Agg == AggNone || m.Agg == AggHist || m.Agg == AggLinear || m.Agg == AggSeries {
		return nil
	}
	if m.Key.Kind != KindBytes || m.Key.Format != FormatKstack && m.Key.Format != FormatUstack {
		return nil
	}
	for _, n := range stackClasses {
		if 8*n < m.Key.Size {
			out = append(out, n)
		}
	}
	return out
}

// maxKey is the size of keys that every kernel takes, in bytes.
const maxKey = 512

// keyLimit is the size of a map's keys in a kernel. Where keys are limited, an
// aggregation by stack keeps the stacks that fit, and counts the others as lost;
// other keys are refused.
func keyLimit(m *Map, kern Version) (int, error) {
	size := kernelKey(m).Size
	if size <= maxKey || kern.AtLeast(longKeys) {
		return size, nil
	}
	if classesOf(m) != nil {
		return maxKey, nil
	}
	return 0, unsupported(fmt.Sprintf("key of %d bytes", size), longKeys, "older kernels take keys of at most 512 bytes: take fewer frames")
}

// className is the name of the map for stacks of up to n frames.
func className(m *Map, n int) string { return fmt.Sprintf("%s.%d", m.Name, n) }

// lost is the counter of what found no room in a map.
func (l *layout) lost(m *Map) int { return cntMaps + l.index[m] }

// array says whether every key of the map is always there.
func (l *layout) array(m *Map) bool {
	k := kernelKind(m)
	return k == ebpf.Array || k == ebpf.PerCPUArray
}

// validMap checks a map's declaration.
func validMap(m *Map) error {
	if m.Name == "" || strings.Contains(m.Name, ".") || len(m.Name) > 128 {
		return fmt.Errorf("bad name %q", m.Name)
	}
	if m.Kind >= numMapKinds || m.Agg >= numAggs {
		return fmt.Errorf("no such kind of map")
	}
	if m.storage() && (!m.Keyless() || m.Agg != AggNone) {
		return fmt.Errorf("a %s has neither keys nor aggregations", m.Kind)
	}
	if m.Entries == EachProbe && (m.Keyless() || m.Kind == MapArray) || m.Entries < EachProbe || m.Entries > 1<<30 {
		return fmt.Errorf("%d entries", m.Entries)
	}
	if !m.Keyless() {
		if err := validType(m.Key, 0); err != nil {
			return fmt.Errorf("key: %w", err)
		}
		if m.Key.Size > 512 && m.Key.Format == FormatNone && m.Key.Kind != KindTuple {
			return fmt.Errorf("key of %d bytes", m.Key.Size)
		}
	}
	switch {
	case m.Agg != AggNone:
		return validAgg(m)
	case m.Flip:
		return errors.New("only aggregations flip")
	case m.storage():
	case m.Keyless() && m.Kind != MapArray && m.Kind != MapPerCPUArray && m.Kind != MapRing && m.Kind != MapPerf:
		return fmt.Errorf("a %s needs keys", m.Kind)
	case (m.Kind == MapArray || m.Kind == MapPerCPUArray) && !m.Keyless() && m.Key.Size != 4:
		return fmt.Errorf("an array's keys are 32-bit integers, not %s", m.Key)
	}
	if err := validType(m.Value, 0); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	return nil
}

func validAgg(m *Map) error {
	switch m.Agg {
	case AggHist:
		if m.Bits < 0 || m.Bits > 5 {
			return fmt.Errorf("hist: 2^%d buckets per power of two: 0 to 5 are possible", m.Bits)
		}
	case AggLinear:
		if m.Step <= 0 || m.Max <= m.Min || (m.Max-m.Min)%m.Step != 0 || (m.Max-m.Min)/m.Step > 1<<20 || m.Max-m.Min < 0 {
			return fmt.Errorf("lhist(%d, %d, %d): the step must divide the range, into at most 2^20", m.Min, m.Max, m.Step)
		}
	case AggSeries:
		if m.Interval <= 0 || m.Slots <= 0 || m.Slots > 1<<20 {
			return fmt.Errorf("tseries: %d slots of %d ns", m.Slots, m.Interval)
		}
		switch m.Inner {
		case AggCount, AggSum, AggMin, AggMax, AggAvg:
		default:
			return fmt.Errorf("tseries of %s", m.Inner)
		}
	}
	return nil
}

// kernelKind is the kernel's type of a map.
func kernelKind(m *Map) ebpf.MapType {
	if m.Agg != AggNone {
		lru := m.Kind == MapLRU || m.Kind == MapPerCPULRU || m.Agg == AggSeries
		switch {
		case lru:
			return ebpf.LRUCPUHash
		case m.Keyless():
			return ebpf.PerCPUArray
		}
		return ebpf.PerCPUHash
	}
	return [numMapKinds]ebpf.MapType{
		ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.Array, ebpf.PerCPUArray,
		ebpf.TaskStorage, ebpf.CgroupStorage, ebpf.RingBuf, ebpf.PerfEventArray,
	}[m.Kind]
}

// kernelKey is the type of a map's keys in the kernel: histograms of keys and
// time series have one entry per bucket or slot.
func kernelKey(m *Map) Type {
	switch {
	case (m.Agg == AggHist || m.Agg == AggLinear) && !m.Keyless():
		return TupleType(Field{Name: "key", Type: m.Key}, Field{Name: "bucket", Type: u32})
	case m.Agg == AggSeries && m.Keyless():
		return TupleType(Field{Name: "slot", Type: u64})
	case m.Agg == AggSeries:
		return TupleType(Field{Name: "key", Type: m.Key}, Field{Name: "slot", Type: u64})
	case m.Keyless():
		return u32
	}
	return m.Key
}

// kernelEntries is how many entries the kernel's map has.
func (l *layout) kernelEntries(m *Map) uint32 {
	n := m.Entries
	switch n {
	case 0:
		n = DefaultEntries
	case EachProbe:
		n = max(l.probes, 1)
	}
	switch {
	case m.Kind == MapRing:
		if m.Entries == 0 {
			n = DefaultBuffer
		}
		return uint32(1) << bits.Len32(uint32(max(n, 4096)-1)) // a power of two, at least a page
	case m.Kind == MapPerf:
		return 0 // one per possible CPU, which cilium fills in
	case m.storage():
		return 0 // as many as there are tasks or cgroups
	case m.Agg == AggHist && m.Keyless():
		return uint32(HistBuckets(m.Bits))
	case m.Agg == AggLinear && m.Keyless():
		return uint32(LinearBuckets(m.Min, m.Max, m.Step))
	case m.Agg == AggSeries && m.Keyless():
		return uint32(m.Slots)
	case m.Agg == AggSeries:
		return uint32(min(n*m.Slots, 1<<24))
	case m.Keyless():
		return 1
	}
	return uint32(n)
}

// valueSize is the size of a map's values in the kernel.
func valueSize(m *Map) int {
	if m.Agg != AggNone {
		return aggSize(m)
	}
	return m.Value.Size
}

// mapSpec is the kernel's map.
func (l *layout) mapSpec(m *Map) *ebpf.MapSpec {
	spec := &ebpf.MapSpec{Name: m.Name, Type: kernelKind(m), MaxEntries: l.kernelEntries(m)}
	switch m.Kind {
	case MapRing:
		return spec
	case MapPerf:
		spec.KeySize, spec.ValueSize = 4, 4
		return spec
	}
	spec.KeySize, spec.ValueSize = uint32(kernelKey(m).Size), uint32(valueSize(m))
	if m.storage() { // which the kernel wants types for (bpf_local_storage_map_alloc_check)
		spec.Flags = bpfNoPrealloc
		spec.Key = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		spec.Value = &btf.Array{Index: uint32BTF(), Type: &btf.Int{Name: "unsigned char", Size: 1}, Nelems: spec.ValueSize}
	}
	return spec
}

// systemMaps are the maps beside the program's own.
func (l *layout) systemMaps(p *Program, scratch int) []*ebpf.MapSpec {
	specs := []*ebpf.MapSpec{
		{Name: ctlMap, Type: ebpf.Array, KeySize: 4, ValueSize: ctlSize, MaxEntries: 1},
		{Name: statsMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(cntMaps + len(l.maps))},
	}
	if scratch > 0 {
		specs = append(specs, &ebpf.MapSpec{
			Name: scratchMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(scratchUsed + scratch), MaxEntries: levels,
		})
	}
	if p.Budget.CPUPercent > 0 || p.Budget.EventsPerSecond > 0 {
		specs = append(specs, &ebpf.MapSpec{
			Name: budgetMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: budSize, MaxEntries: 1,
		})
	}
	return specs
}
