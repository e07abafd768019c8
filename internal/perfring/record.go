package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// These are types of records (enum perf_event_type).
const (
	TypeMmap          = 1
	TypeLost          = 2
	TypeComm          = 3
	TypeExit          = 4
	TypeThrottle      = 5
	TypeUnthrottle    = 6
	TypeFork          = 7
	TypeRead          = 8
	TypeSample        = 9
	TypeMmap2         = 10
	TypeAux           = 11
	TypeItraceStart   = 12
	TypeLostSamples   = 13
	TypeSwitch        = 14
	TypeSwitchCPUWide = 15
	TypeNamespaces    = 16
	TypeKsymbol       = 17
	TypeBPFEvent      = 18
	TypeCgroup        = 19
	TypeTextPoke      = 20
)

// These are flags of a record's Misc.
const (
	MiscCPUMode       = 7       // mask of the mode in which a sample was taken
	MiscKernel        = 1       // PERF_RECORD_MISC_KERNEL
	MiscUser          = 2       // PERF_RECORD_MISC_USER
	MiscHypervisor    = 3       // PERF_RECORD_MISC_HYPERVISOR
	MiscGuestKernel   = 4       // PERF_RECORD_MISC_GUEST_KERNEL
	MiscGuestUser     = 5       // PERF_RECORD_MISC_GUEST_USER
	MiscMmapData      = 1 << 13 // for Mmap: not executable
	MiscCommExec      = 1 << 13 // for Comm: by execve
	MiscSwitchOut     = 1 << 13 // for Switch: away from the task
	MiscExactIP       = 1 << 14 // for Sample: the address has no skid
	MiscMmapBuildID   = 1 << 14 // for Mmap2: build-id instead of inode
	MiscSwitchPreempt = 1 << 14 // for Switch: the task was still runnable
)

// These select the contents of a sample (enum perf_event_sample_format): bits of sample_type.
const (
	SampleIP uint64 = 1 << iota
	SampleTID
	SampleTime
	SampleAddr
	SampleReadGroup
	SampleCallchain
	SampleEventID // PERF_SAMPLE_ID
	SampleCPU
	SamplePeriod
	SampleStreamID
	SampleRaw
	SampleBranchStack
	SampleRegsUser
	SampleStackUser
	SampleWeight
	SampleDataSrc
	SampleIdentifier
	SampleTransaction
	SampleRegsIntr
	SamplePhysAddr
	SampleAux
	SampleCgroup       // 5.7
	SampleDataPageSize // 5.11
	SampleCodePageSize // 5.11
	SampleWeightStruct // 5.12
	sampleUnknown
)

// These select the values that read(2) of an event returns (enum perf_event_read_format): bits
// of read_format.
const (
	FormatEnabled uint64 = 1 << iota
	FormatRunning
	FormatID
	FormatGroup
	FormatLost // 6.0
)

// These are bits of branch_sample_type that change the layout.
const (
	branchHWIndex  = 1 << 17
	branchCounters = 1 << 19
)

// Format contains the fields of an event's struct perf_event_attr that determine the layout of
// its records.
type Format struct {
	SampleType uint64
	ReadFormat uint64
	// BranchSampleType, RegsUser and RegsIntr are used if SampleType includes branches or
	// registers.
	BranchSampleType uint64
	RegsUser         uint64
	RegsIntr         uint64
	// SampleIDAll is set if every record but samples ends with a SampleID.
	SampleIDAll bool
}

// Record is one decoded record. Its Type determines which part is set. Decode reuses the
// memory of its slices, and some of them are parts of the Raw's Data.
type Record struct {
	Type uint32
	Misc uint16
	// ID contains the event, task and time of a record that is not a sample, if the event has
	// SampleIDAll.
	ID SampleID

	Sample  Sample   // TypeSample
	Lost    Lost     // TypeLost, TypeLostSamples
	Comm    Comm     // TypeComm
	Task    Task     // TypeFork, TypeExit
	Mmap    Mmap     // TypeMmap, TypeMmap2
	Ksymbol Ksymbol  // TypeKsymbol
	BPF     BPFEvent // TypeBPFEvent
	Switch  Switch   // TypeSwitchCPUWide; TypeSwitch has only Misc
	Rate    Rate     // TypeThrottle, TypeUnthrottle
	Cgroup  Cgroup   // TypeCgroup
}

// IsSample reports whether the record is a sample.
func (r *Record) IsSample() bool { return r.Type == TypeSample }

// InKernel reports whether a sample was taken in the kernel.
func (r *Record) InKernel() bool { return r.Misc&MiscCPUMode == MiscKernel }

// ExactIP reports whether a sample's address is that of the instruction that caused it.
func (r *Record) ExactIP() bool { return r.Misc&MiscExactIP != 0 }

// IsLost reports whether the record is a count of lost records.
func (r *Record) IsLost() bool { return r.Type == TypeLost || r.Type == TypeLostSamples }

// IsComm reports whether the record is a thread's new name.
func (r *Record) IsComm() bool { return r.Type == TypeComm }

// IsFork reports whether the record is the start of a thread.
func (r *Record) IsFork() bool { return r.Type == TypeFork }

// IsExit reports whether the record is the end of a thread.
func (r *Record) IsExit() bool { return r.Type == TypeExit }

// IsMmap reports whether the record is a new mapping.
func (r *Record) IsMmap() bool { return r.Type == TypeMmap || r.Type == TypeMmap2 }

// HoldsCode reports whether a mapping is executable.
func (r *Record) HoldsCode() bool { return r.Misc&MiscMmapData == 0 }

// ByBuildID reports whether a mapping has its file's build-id instead of its inode.
func (r *Record) ByBuildID() bool { return r.Type == TypeMmap2 && r.Misc&MiscMmapBuildID != 0 }

// IsSwitch reports whether the record is a context switch.
func (r *Record) IsSwitch() bool { return r.Type == TypeSwitch || r.Type == TypeSwitchCPUWide }

// Out reports whether a context switch is away from the sampled task.
func (r *Record) Out() bool { return r.Misc&MiscSwitchOut != 0 }

// Preempted reports whether the task was still runnable at a context switch away from it.
func (r *Record) Preempted() bool { return r.Out() && r.Misc&MiscSwitchPreempt != 0 }

// IsKsymbol reports whether the record is code that was added to the kernel or removed.
func (r *Record) IsKsymbol() bool { return r.Type == TypeKsymbol }

// IsBPF reports whether the record is a BPF program that was loaded or unloaded.
func (r *Record) IsBPF() bool { return r.Type == TypeBPFEvent }

// IsCgroup reports whether the record is a new cgroup.
func (r *Record) IsCgroup() bool { return r.Type == TypeCgroup }

// IsThrottle reports whether the record is the stop of an event that came too often.
func (r *Record) IsThrottle() bool { return r.Type == TypeThrottle }

// IsUnthrottle reports whether the record is the restart of such an event.
func (r *Record) IsUnthrottle() bool { return r.Type == TypeUnthrottle }

// SampleID is the trailer of records that are not samples.
type SampleID struct {
	PID, TID uint32
	Time     uint64
	ID       uint64
	StreamID uint64
	CPU      uint32
}

// Lost is the number of records that an event lost.
type Lost struct{ ID, Count uint64 }

// Comm is a new name of a thread. Exec is set if execve changed it.
type Comm struct {
	PID, TID uint32
	Name     string
	Exec     bool
}

// Task is a thread that started (Fork) or ended (Exit).
type Task struct {
	PID, PPID, TID, PTID uint32
	Time                 uint64
}

// Mmap is a new mapping of a process.
type Mmap struct {
	PID, TID           uint32
	Addr, Len, PageOff uint64
	// These are only set for TypeMmap2: the file, by device and inode or (MiscMmapBuildID) by
	// build-id.
	Major, Minor       uint32
	Inode, InodeGen    uint64
	BuildID            []byte
	Protection, MFlags uint32
	Path               string
}

// Ksymbol is code that was added to the kernel or (Unregister) removed: a BPF program (Kind 1)
// or out-of-line code (Kind 2: trampolines, kprobe slots).
type Ksymbol struct {
	Addr       uint64
	Len        uint32
	Kind       uint16
	Unregister bool
	Name       string
}

// BPFEvent is a BPF program that was loaded (Kind 1) or unloaded (2).
type BPFEvent struct {
	Kind  uint16
	Flags uint16
	ID    uint32
	Tag   [8]byte
}

// Switch is the other task of a context switch.
type Switch struct{ PID, TID uint32 }

// Rate is the time at which the kernel stopped or resumed an event that came too often.
type Rate struct{ Time, ID, StreamID uint64 }

// Cgroup is a new cgroup.
type Cgroup struct {
	ID   uint64
	Path string
}

// Branch is one entry of a branch stack. Flags are the kernel's bits: mispredicted, predicted,
// in_tx, abort, cycles:16, type:4, …
type Branch struct{ From, To, Flags uint64 }

// ReadValue is one event's value in a read.
type ReadValue struct{ Value, ID, Lost uint64 }

// Sample is a TypeSample record. The event's sample_type determines which fields are set.
type Sample struct {
	IP       uint64
	PID, TID uint32
	Time     uint64
	Addr     uint64
	// ID is the event's id, from SampleIdentifier or SampleEventID.
	ID       uint64
	StreamID uint64
	CPU      uint32
	Period   uint64

	Enabled, Running uint64
	Read             []ReadValue

	Callchain []uint64
	// Raw is the data that a tracepoint or BPF program wrote. It is part of the Raw record's
	// Data.
	Raw []byte
	// Branches has the newest branch first. BranchIndex is the hardware's index of the first,
	// -1 if it is not known. BranchCounters has one element for each branch.
	Branches       []Branch
	BranchIndex    int64
	BranchCounters []uint64

	// UserABI is 0 (no registers: a kernel thread), 1 (32-bit) or 2 (64-bit).
	UserABI  uint64
	UserRegs []uint64
	// UserStack is the valid part of the copy of the user stack. It is part of the Raw
	// record's Data.
	UserStack []byte
	IntrABI   uint64
	IntrRegs  []uint64

	Weight       uint64
	DataSrc      uint64
	Transaction  uint64
	PhysAddr     uint64
	Cgroup       uint64
	DataPageSize uint64
	CodePageSize uint64
	// Aux is part of the Raw record's Data.
	Aux []byte
}

var errShort = errors.New("perf record: shorter than its fields")

// cursor reads a record's fields. It stays short once the record is too short.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.short = true
		c.b = nil
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.NativeEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.NativeEndian.Uint16(b)
	}
	return 0
}

// words appends n words to dst. It appends none if there are fewer.
func (c *cursor) words(dst []uint64, n uint64) []uint64 {
	if n > uint64(len(c.b))/8 {
		c.short = true
		return dst
	}
	for range n {
		dst = append(dst, c.u64())
	}
	return dst
}

// cstring returns a NUL-terminated string and skips its padding, which is the rest of the
// record.
func (c *cursor) cstring() string {
	b := c.b
	c.b = nil
	for i, x := range b {
		if x == 0 {
			return string(b[:i])
		}
	}
	if len(b) == 0 {
		c.short = true
	}
	return string(b)
}

// Decode decodes raw into rec, reusing rec's memory. For unknown types it sets only Type and
// Misc. It returns an error if the record is shorter than its fields, with the record's type.
func (f *Format) Decode(raw *Raw, rec *Record) error {
	rec.Type, rec.Misc = raw.Type, raw.Misc
	c := cursor{b: raw.Data}
	if raw.Type == TypeSample {
		f.sample(&c, &rec.Sample)
		return shortError(&c, raw)
	}
	rec.ID = SampleID{}
	if f.SampleIDAll {
		f.trailer(&c, &rec.ID)
	}
	switch raw.Type {
	case TypeLost:
		rec.Lost = Lost{ID: c.u64(), Count: c.u64()}
	case TypeLostSamples:
		rec.Lost = Lost{Count: c.u64()}
	case TypeComm:
		rec.Comm = Comm{PID: c.u32(), TID: c.u32(), Name: c.cstring(), Exec: raw.Misc&MiscCommExec != 0}
	case TypeFork, TypeExit:
		rec.Task = Task{PID: c.u32(), PPID: c.u32(), TID: c.u32(), PTID: c.u32(), Time: c.u64()}
	case TypeMmap, TypeMmap2:
		rec.Mmap = c.mmap(raw)
	case TypeKsymbol:
		rec.Ksymbol = Ksymbol{
			Addr: c.u64(), Len: c.u32(), Kind: c.u16(), Unregister: c.u16()&1 != 0,
			Name: c.cstring(),
		}
	case TypeBPFEvent:
		rec.BPF = BPFEvent{Kind: c.u16(), Flags: c.u16(), ID: c.u32()}
		copy(rec.BPF.Tag[:], c.bytes(8))
	case TypeSwitchCPUWide:
		rec.Switch = Switch{PID: c.u32(), TID: c.u32()}
	case TypeThrottle, TypeUnthrottle:
		rec.Rate = Rate{Time: c.u64(), ID: c.u64(), StreamID: c.u64()}
	case TypeCgroup:
		rec.Cgroup = Cgroup{ID: c.u64(), Path: c.cstring()}
	}
	return shortError(&c, raw)
}

func shortError(c *cursor, raw *Raw) error {
	if c.short {
		return fmt.Errorf("%w: type %d, %d bytes", errShort, raw.Type, len(raw.Data))
	}
	return nil
}

func (c *cursor) mmap(raw *Raw) Mmap {
	m := Mmap{PID: c.u32(), TID: c.u32(), Addr: c.u64(), Len: c.u64(), PageOff: c.u64()}
	if raw.Type == TypeMmap2 {
		if raw.Misc&MiscMmapBuildID != 0 {
			size := c.bytes(4) // u8 size, 3 bytes unused
			id := c.bytes(20)
			if size != nil && id != nil {
				m.BuildID = append([]byte(nil), id[:min(int(size[0]), len(id))]...)
			}
		} else {
			m.Major, m.Minor, m.Inode, m.InodeGen = c.u32(), c.u32(), c.u64(), c.u64()
		}
		m.Protection, m.MFlags = c.u32(), c.u32()
	}
	m.Path = c.cstring()
	return m
}

// trailer removes the SampleID from the end of the record (perf_event__output_id_sample).
func (f *Format) trailer(c *cursor, id *SampleID) {
	const mask = SampleTID | SampleTime | SampleEventID | SampleStreamID | SampleCPU | SampleIdentifier
	n := 8 * bits.OnesCount64(f.SampleType&mask)
	if n > len(c.b) {
		c.short = true
		c.b = nil
		return
	}
	t := cursor{b: c.b[len(c.b)-n:]}
	c.b = c.b[:len(c.b)-n]
	if f.SampleType&SampleTID != 0 {
		id.PID, id.TID = t.u32(), t.u32()
	}
	if f.SampleType&SampleTime != 0 {
		id.Time = t.u64()
	}
	if f.SampleType&SampleEventID != 0 {
		id.ID = t.u64()
	}
	if f.SampleType&SampleStreamID != 0 {
		id.StreamID = t.u64()
	}
	if f.SampleType&SampleCPU != 0 {
		id.CPU = t.u32()
		t.u32()
	}
	if f.SampleType&SampleIdentifier != 0 {
		id.ID = t.u64()
	}
}
