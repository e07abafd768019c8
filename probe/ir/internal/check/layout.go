package check

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
)

// BpfNoPrealloc is BPF_F_NO_PREALLOC.
const BpfNoPrealloc = 1

// Names of the maps that every program has besides its own.
const (
	CtlMap     = ".control" // switches: see ctlDisabled in package codegen
	StatsMap   = ".counts"  // per CPU: losses, see CntFaults and the constants after it
	ScratchMap = ".scratch" // per CPU: values that do not fit on the stack
	BudgetMap  = ".budget"  // per CPU: the used part of the budget
)

// Counters, as indexes into StatsMap. The losses of the program's maps follow, in order, from
// CntMaps.
const (
	CntFaults = iota
	CntTruncated
	CntNoScratch
	CntLimited
	CntThrottled
	CntWalked
	CntUnwalked
	CntBroken
	CntBusy
	CntMaps
)

// Layout has a program's maps and the indexes of their counters.
type Layout struct {
	Maps   []*ir.Map
	Index  map[*ir.Map]int
	probes int // of the plan
	// Wide is set if the scratch areas are larger than values of per-CPU maps may be: then they are
	// elements of one array, Levels for each CPU.
	Wide bool
}

// MostPerCPU is the size of the largest values of per-CPU maps (PCPU_MIN_UNIT_SIZE,
// include/linux/percpu.h).
const MostPerCPU = 32 << 10

// NewLayout lays out the maps of a program. Without a plan it only checks their declarations.
func NewLayout(p *ir.Program, plan *probe.Plan) (*Layout, error) {
	l := &Layout{Maps: p.AllMaps(), Index: map[*ir.Map]int{}}
	if plan != nil {
		for i := range plan.Programs {
			l.probes += len(plan.Programs[i].Sites)
		}
	}
	if p.Failures != nil && p.Failures.Kind != ir.MapRing {
		return nil, At(p.Failures.Pos, "map "+p.Failures.Name, errors.New("failures go to a ring"))
	}
	names := map[string]bool{CtlMap: true, StatsMap: true, ScratchMap: true, BudgetMap: true}
	for i, m := range l.Maps {
		if err := validMap(m); err != nil {
			return nil, At(m.Pos, "map "+m.Name, err)
		}
		if n := l.KernelEntries(m); isHash(kernelKind(m)) && n > maxHash {
			return nil, At(m.Pos, "map "+m.Name,
				fmt.Errorf("%d entries: the kernel's hash maps have room for %d at most", n, maxHash))
		}
		if names[m.Name] {
			return nil, At(m.Pos, "map "+m.Name, fmt.Errorf("the name is taken"))
		}
		names[m.Name] = true
		l.Index[m] = i
	}
	return l, nil
}

// maxHash is the number of buckets, and so of entries, beyond which the kernel refuses a hash
// with E2BIG (htab_map_alloc, kernel/bpf/hashtab.c).
const maxHash = 1 << 27

func isHash(t ebpf.MapType) bool {
	switch t {
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		return true
	}
	return false
}

// stackClasses are the depths for which an aggregation by stack has separate maps, besides
// the one for the full depth: hashing takes time in proportion to the key's size, and most
// stacks are shallow.
var stackClasses = []int{8, 24}

// ClassesOf returns the classes that a map has: the depths smaller than its key, if its key
// is a stack.
func ClassesOf(m *ir.Map) []int {
	var out []int
	if m.Agg == ir.AggNone || m.Agg == ir.AggHist || m.Agg == ir.AggLinear || m.Agg == ir.AggSeries {
		return nil
	}
	if m.Key.Kind != ir.KindBytes ||
		m.Key.Format != ir.FormatKstack && m.Key.Format != ir.FormatUstack {
		return nil
	}
	for _, n := range stackClasses {
		if 8*n < m.Key.Size {
			out = append(out, n)
		}
	}
	return out
}

// MaxKey is the maximal size of keys on all kernels, in bytes.
const MaxKey = 512

// KeyLimit returns the size of a map's keys in a kernel. If the kernel limits keys, an
// aggregation by stack keeps the stacks that fit, and counts the others as lost; for other
// keys KeyLimit returns an error.
func KeyLimit(m *ir.Map, kern ir.Version) (int, error) {
	size := KernelKey(m).Size
	if size <= MaxKey || kern.AtLeast(longKeys) {
		return size, nil
	}
	if ClassesOf(m) != nil {
		return MaxKey, nil
	}
	return 0, Unsupported(fmt.Sprintf("key of %d bytes", size), longKeys,
		"older kernels take keys of at most 512 bytes: take fewer frames")
}

// ClassName returns the name of the map for stacks of up to n frames.
func ClassName(m *ir.Map, n int) string { return fmt.Sprintf("%s.%d", m.Name, n) }

// Lost returns the index of the counter of entries that did not fit into a map.
func (l *Layout) Lost(m *ir.Map) int { return CntMaps + l.Index[m] }

// Array reports whether every key of the map always exists.
func (l *Layout) Array(m *ir.Map) bool {
	k := kernelKind(m)
	return k == ebpf.Array || k == ebpf.PerCPUArray
}

// validMap checks a map's declaration.
func validMap(m *ir.Map) error {
	if m.Name == "" || strings.Contains(m.Name, ".") || len(m.Name) > 128 {
		return fmt.Errorf("bad name %q", m.Name)
	}
	if m.Kind > ir.MapPerf || m.Agg > ir.AggSeries {
		return fmt.Errorf("no such kind of map")
	}
	if Storage(m) && (!m.Keyless() || m.Agg != ir.AggNone) {
		return fmt.Errorf("a %s has neither keys nor aggregations", m.Kind)
	}
	if m.Entries == ir.EachProbe && (m.Keyless() || m.Kind == ir.MapArray) ||
		m.Entries < ir.EachProbe || m.Entries > 1<<30 {
		return fmt.Errorf("%d entries", m.Entries)
	}
	if !m.Keyless() {
		if err := m.Key.Valid(); err != nil {
			return fmt.Errorf("key: %w", err)
		}
		if m.Key.Size > 512 && m.Key.Format == ir.FormatNone && m.Key.Kind != ir.KindTuple {
			return fmt.Errorf("key of %d bytes", m.Key.Size)
		}
	}
	switch {
	case m.Agg != ir.AggNone:
		return validAgg(m)
	case m.Flip:
		return errors.New("only aggregations flip")
	case Storage(m):
	case m.Keyless() && m.Kind != ir.MapArray && m.Kind != ir.MapPerCPUArray && m.Kind != ir.MapRing &&
		m.Kind != ir.MapPerf:
		return fmt.Errorf("a %s needs keys", m.Kind)
	case (m.Kind == ir.MapArray || m.Kind == ir.MapPerCPUArray) && !m.Keyless() && m.Key.Size != 4:
		return fmt.Errorf("an array's keys are 32-bit integers, not %s", m.Key)
	}
	if err := m.Value.Valid(); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	return nil
}

func validAgg(m *ir.Map) error {
	switch m.Agg {
	case ir.AggHist:
		if m.Bits < 0 || m.Bits > 5 {
			return fmt.Errorf("hist: 2^%d buckets per power of two: want an exponent of 0 to 5", m.Bits)
		}
	case ir.AggLinear:
		if m.Step <= 0 || m.Max <= m.Min || (m.Max-m.Min)%m.Step != 0 || (m.Max-m.Min)/m.Step > 1<<20 ||
			m.Max-m.Min < 0 {
			return fmt.Errorf("lhist(%d, %d, %d): the step must divide the range, into at most 2^20", m.Min,
				m.Max, m.Step)
		}
	case ir.AggSeries:
		if m.Interval <= 0 || m.Slots <= 0 || m.Slots > 1<<20 {
			return fmt.Errorf("tseries: %d slots of %d ns", m.Slots, m.Interval)
		}
		switch m.Inner {
		case ir.AggCount, ir.AggSum, ir.AggMin, ir.AggMax, ir.AggAvg, ir.AggLast:
		default:
			return fmt.Errorf("tseries of %s", m.Inner)
		}
	}
	return nil
}

// kernelKind returns the kernel's type of a map.
func kernelKind(m *ir.Map) ebpf.MapType {
	if m.Agg != ir.AggNone {
		lru := m.Kind == ir.MapLRU || m.Kind == ir.MapPerCPULRU || m.Agg == ir.AggSeries
		switch {
		case lru:
			return ebpf.LRUCPUHash
		case m.Keyless():
			return ebpf.PerCPUArray
		}
		return ebpf.PerCPUHash
	}
	return [ir.MapPerf + 1]ebpf.MapType{
		ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.Array, ebpf.PerCPUArray,
		ebpf.TaskStorage, ebpf.CgroupStorage, ebpf.RingBuf, ebpf.PerfEventArray,
	}[m.Kind]
}

// KernelKey returns the type of a map's keys in the kernel: histograms by key and time series
// have one entry for each bucket or slot.
func KernelKey(m *ir.Map) ir.Type {
	switch {
	case (m.Agg == ir.AggHist || m.Agg == ir.AggLinear) && !m.Keyless():
		return ir.TupleType(ir.Field{Name: "key", Type: m.Key},
			ir.Field{Name: "bucket", Type: ir.IntType(4, false)})
	case m.Agg == ir.AggSeries && m.Keyless():
		return ir.TupleType(ir.Field{Name: "slot", Type: ir.Uint64Type()})
	case m.Agg == ir.AggSeries:
		return ir.TupleType(ir.Field{Name: "key", Type: m.Key},
			ir.Field{Name: "slot", Type: ir.Uint64Type()})
	case m.Keyless():
		return ir.IntType(4, false)
	}
	return m.Key
}

// KernelEntries returns the number of entries of the kernel's map.
func (l *Layout) KernelEntries(m *ir.Map) uint32 {
	n := m.Entries
	switch n {
	case 0:
		n = ir.DefaultEntries
	case ir.EachProbe:
		n = max(l.probes, 1)
	}
	switch {
	case m.Kind == ir.MapRing:
		if m.Entries == 0 {
			n = ir.DefaultBuffer
		}
		return uint32(1) << bits.Len32(uint32(max(n, 4096)-1)) // a power of two, at least a page
	case m.Kind == ir.MapPerf:
		return 0 // cilium sets it to the number of possible CPUs
	case Storage(m):
		return 0 // the kernel requires 0: each task or cgroup has its value
	case m.Agg == ir.AggHist && m.Keyless():
		return uint32(eval.HistBuckets(m.Bits))
	case m.Agg == ir.AggLinear && m.Keyless():
		return uint32(eval.LinearBuckets(m.Min, m.Max, m.Step))
	case m.Agg == ir.AggSeries && m.Keyless():
		return uint32(m.Slots)
	case m.Agg == ir.AggSeries:
		return uint32(min(n*m.Slots, 1<<24))
	case m.Keyless():
		return 1
	}
	return uint32(n)
}

// ValueSize returns the size of a map's values in the kernel.
func ValueSize(m *ir.Map) int {
	if m.Agg != ir.AggNone {
		return AggSize(m)
	}
	return m.Value.Size
}

// MapSpec returns the specification of the kernel's map.
func (l *Layout) MapSpec(m *ir.Map) *ebpf.MapSpec {
	spec := &ebpf.MapSpec{Name: m.Name, Type: kernelKind(m), MaxEntries: l.KernelEntries(m)}
	switch m.Kind {
	case ir.MapRing:
		return spec
	case ir.MapPerf:
		spec.KeySize, spec.ValueSize = 4, 4
		return spec
	}
	spec.KeySize, spec.ValueSize = uint32(KernelKey(m).Size), uint32(ValueSize(m))
	if Storage(m) { // which need types (bpf_local_storage_map_alloc_check)
		spec.Flags = BpfNoPrealloc
		spec.Key = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
		spec.Value = &btf.Array{
			Index: Uint32BTF(), Type: &btf.Int{Name: "unsigned char", Size: 1},
			Nelems: spec.ValueSize,
		}
	}
	return spec
}

// SetCPUs gives the maps of a specification their sizes on a machine with as many possible CPUs.
func SetCPUs(spec *ebpf.CollectionSpec, cpus int) {
	if m := spec.Maps[ScratchMap]; m != nil && m.Type == ebpf.Array {
		m.MaxEntries = uint32(Levels * cpus)
	}
}

// SystemMaps returns the maps besides the program's own.
func (l *Layout) SystemMaps(p *ir.Program, scratch int) []*ebpf.MapSpec {
	specs := []*ebpf.MapSpec{
		{Name: CtlMap, Type: ebpf.Array, KeySize: 4, ValueSize: ctlSize, MaxEntries: 1},
		{
			Name: StatsMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8,
			MaxEntries: uint32(CntMaps + len(l.Maps)),
		},
	}
	if scratch > 0 {
		kind := ebpf.PerCPUArray
		if l.Wide {
			kind = ebpf.Array // for one CPU: SetCPUs
		}
		specs = append(specs, &ebpf.MapSpec{
			Name: ScratchMap, Type: kind, KeySize: 4, ValueSize: uint32(ScratchUsed + scratch),
			MaxEntries: Levels,
		})
	}
	if p.Budget.CPUPercent > 0 || p.Budget.EventsPerSecond > 0 {
		specs = append(specs, &ebpf.MapSpec{
			Name: BudgetMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: budSize, MaxEntries: 1,
		})
	}
	return specs
}
