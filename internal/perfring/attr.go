package perfring

import (
	"encoding/binary"
	"unsafe"
)

// These are types of events: attr.type (enum perf_type_id). Larger numbers are those that
// sysfs assigns to each PMU.
const (
	EventHardware   uint32 = 0
	EventSoftware   uint32 = 1
	EventTracepoint uint32 = 2
	EventCache      uint32 = 3
	EventRaw        uint32 = 4
	EventBreakpoint uint32 = 5
)

// Attr is the kernel's struct perf_event_attr (include/uapi/linux/perf_event.h) in its newest
// layout, field for field, so that its memory can be passed to the kernel. That of
// golang.org/x/sys has no config3, and PerfEventOpen there does not set Size.
//
// A kernel with a shorter struct accepts this one if the fields that it does not have are
// zero, so Size is always AttrSize.
type Attr struct {
	Type             uint32
	Size             uint32
	Config           uint64
	Sample           uint64 // sample_period, or sample_freq with AttrFreq
	SampleType       uint64
	ReadFormat       uint64
	Flags            AttrFlags
	Wakeup           uint32 // wakeup_events, or wakeup_watermark with AttrWatermark
	BPType           uint32
	Config1          uint64 // also bp_addr, kprobe_func, uprobe_path
	Config2          uint64 // also bp_len, kprobe_addr, probe_offset
	BranchSampleType uint64
	SampleRegsUser   uint64
	SampleStackUser  uint32
	ClockID          int32
	SampleRegsIntr   uint64
	AuxWatermark     uint32
	SampleMaxStack   uint16
	_                uint16
	AuxSampleSize    uint32
	AuxAction        uint32
	SigData          uint64
	Config3          uint64
}

// AttrSize is sizeof(struct perf_event_attr) as of PERF_ATTR_SIZE_VER8 (Linux 6.3).
const AttrSize = 136

// This does not compile unless the layout is the kernel's.
var _ [0]struct{} = [AttrSize - unsafe.Sizeof(Attr{})]struct{}{}

// AttrFlags are the bit fields of struct perf_event_attr.
type AttrFlags uint64

// These are the flags, in the kernel's order (perf_event.h), with the minimum kernel if it is
// later than 5.10.
const (
	AttrDisabled AttrFlags = 1 << iota
	AttrInherit
	AttrPinned
	AttrExclusive
	AttrExcludeUser
	AttrExcludeKernel
	AttrExcludeHV
	AttrExcludeIdle
	AttrMmap
	AttrComm
	AttrFreq
	AttrInheritStat
	AttrEnableOnExec
	AttrTask
	AttrWatermark
	attrPrecise1
	attrPrecise2
	AttrMmapData
	AttrSampleIDAll
	AttrExcludeHost
	AttrExcludeGuest
	AttrExcludeCallchainKernel
	AttrExcludeCallchainUser
	AttrMmap2
	AttrCommExec
	AttrUseClockID
	AttrContextSwitch
	AttrWriteBackward
	AttrNamespaces
	AttrKsymbol
	AttrBPFEvent
	AttrAuxOutput
	AttrCgroup
	AttrTextPoke
	AttrBuildID       // 5.12
	AttrInheritThread // 5.13
	AttrRemoveOnExec  // 5.13
	AttrSigtrap       // 5.13
)

const preciseShift = 15

// Precise returns the precise_ip level in the flags, 0 to 3.
func (f AttrFlags) Precise() int { return int(f>>preciseShift) & 3 }

// WithPrecise returns the flags with the given precise_ip level, of which it uses the low two
// bits.
func (f AttrFlags) WithPrecise(level int) AttrFlags {
	return f&^(attrPrecise1|attrPrecise2) | AttrFlags(level&3)<<preciseShift
}

// AppendBinary appends the attribute in the kernel's layout on this machine. It never fails.
func (a *Attr) AppendBinary(b []byte) ([]byte, error) {
	return binary.Append(b, binary.NativeEndian, a)
}
