package perfring

import "math/bits"

// sample decodes a sample in the order in which the kernel writes it
// (kernel/events/core.c, perf_output_sample).
func (f *Format) sample(c *cursor, s *Sample) {
	t := f.SampleType
	if t >= sampleUnknown {
		// A bit of a newer kernel may put bytes anywhere.
		c.short = true
		return
	}
	s.reset()
	f.sampleHead(c, s)
	if t&sampleRead != 0 {
		f.sampleRead(c, s)
	}
	if t&sampleCallchain != 0 {
		s.Callchain = c.words(s.Callchain, c.u64())
	}
	if t&sampleRaw != 0 {
		s.Raw = c.bytes(uint64(c.u32()))
	}
	if t&sampleBranchStack != 0 {
		f.branches(c, s)
	}
	if t&sampleRegsUser != 0 {
		s.UserABI, s.UserRegs = c.regs(s.UserRegs, f.RegsUser)
	}
	if t&sampleStackUser != 0 {
		s.UserStack = c.stack()
	}
	if t&(sampleWeight|sampleWeightStruct) != 0 {
		s.Weight = c.u64()
	}
	if t&sampleDataSrc != 0 {
		s.DataSrc = c.u64()
	}
	if t&sampleTransaction != 0 {
		s.Transaction = c.u64()
	}
	if t&sampleRegsIntr != 0 {
		s.IntrABI, s.IntrRegs = c.regs(s.IntrRegs, f.RegsIntr)
	}
	for _, x := range [...]struct {
		bit uint64
		to  *uint64
	}{
		{samplePhysAddr, &s.PhysAddr},
		{sampleCgroup, &s.Cgroup},
		{sampleDataPageSize, &s.DataPageSize},
		{sampleCodePageSize, &s.CodePageSize},
	} {
		if t&x.bit != 0 {
			*x.to = c.u64()
		}
	}
	if t&sampleAux != 0 {
		s.Aux = c.bytes(c.u64())
	}
}

// reset empties s and keeps its slices' memory.
func (s *Sample) reset() {
	*s = Sample{
		Read: s.Read[:0], Callchain: s.Callchain[:0], Branches: s.Branches[:0], BranchIndex: -1,
		BranchCounters: s.BranchCounters[:0], UserRegs: s.UserRegs[:0], IntrRegs: s.IntrRegs[:0],
	}
}

func (f *Format) sampleHead(c *cursor, s *Sample) {
	t := f.SampleType
	if t&sampleIdentifier != 0 {
		s.ID = c.u64()
	}
	if t&sampleIP != 0 {
		s.IP = c.u64()
	}
	if t&sampleTID != 0 {
		s.PID, s.TID = c.u32(), c.u32()
	}
	if t&sampleTime != 0 {
		s.Time = c.u64()
	}
	if t&sampleAddr != 0 {
		s.Addr = c.u64()
	}
	if t&sampleID != 0 {
		s.ID = c.u64()
	}
	if t&sampleStreamID != 0 {
		s.StreamID = c.u64()
	}
	if t&sampleCPU != 0 {
		s.CPU = c.u32()
		c.u32()
	}
	if t&samplePeriod != 0 {
		s.Period = c.u64()
	}
}

// Bits of read_format (enum perf_event_read_format).
const (
	readEnabled = 1 << iota
	readRunning
	readID
	readGroup
	readLost
)

// sampleRead decodes a read within a sample (perf_output_read).
func (f *Format) sampleRead(c *cursor, s *Sample) {
	n := uint64(1)
	group := f.ReadFormat&readGroup != 0
	var v ReadValue
	if group {
		n = c.u64()
	} else {
		v.Value = c.u64()
	}
	if f.ReadFormat&readEnabled != 0 {
		s.Enabled = c.u64()
	}
	if f.ReadFormat&readRunning != 0 {
		s.Running = c.u64()
	}
	for ; n > 0 && !c.short; n-- {
		if group {
			v.Value = c.u64()
		}
		if f.ReadFormat&readID != 0 {
			v.ID = c.u64()
		}
		if f.ReadFormat&readLost != 0 {
			v.Lost = c.u64()
		}
		if !c.short {
			s.Read = append(s.Read, v)
		}
	}
}

func (f *Format) branches(c *cursor, s *Sample) {
	n := c.u64()
	if f.BranchSampleType&branchHWIndex != 0 {
		s.BranchIndex = int64(c.u64())
	}
	if n > uint64(len(c.b))/24 {
		c.short = true
		return
	}
	for range n {
		s.Branches = append(s.Branches, Branch{From: c.u64(), To: c.u64(), Flags: c.u64()})
	}
	if f.BranchSampleType&branchCounters != 0 {
		s.BranchCounters = c.words(s.BranchCounters, n)
	}
}

// regs decodes an ABI and, unless there is none, a register for each bit of mask.
func (c *cursor) regs(dst []uint64, mask uint64) (abi uint64, regs []uint64) {
	if abi = c.u64(); abi == 0 {
		return 0, dst
	}
	return abi, c.words(dst, uint64(bits.OnesCount64(mask)))
}

// stack decodes a copy of the user stack: its size, the bytes, and how many of
// them are valid, which is missing if there are none.
func (c *cursor) stack() []byte {
	size := c.u64()
	if size == 0 {
		return nil
	}
	b := c.bytes(size)
	valid := c.u64()
	return b[:min(valid, uint64(len(b)))]
}
