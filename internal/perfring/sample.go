package perfring

import "math/bits"

// sample decodes a sample in the order in which the kernel writes it
// (kernel/events/core.c, perf_output_sample).
func (f *Format) sample(c *cursor, s *Sample) {
	t := f.SampleType
	if t >= sampleUnknown {
		// An unknown bit of a newer kernel may put bytes anywhere.
		c.short = true
		return
	}
	s.reset()
	f.sampleHead(c, s)
	if t&SampleReadGroup != 0 {
		f.sampleRead(c, s)
	}
	if t&SampleCallchain != 0 {
		s.Callchain = c.words(s.Callchain, c.u64())
	}
	if t&SampleRaw != 0 {
		s.Raw = c.bytes(uint64(c.u32()))
	}
	if t&SampleBranchStack != 0 {
		f.branches(c, s)
	}
	if t&SampleRegsUser != 0 {
		s.UserABI, s.UserRegs = c.regs(s.UserRegs, f.RegsUser)
	}
	if t&SampleStackUser != 0 {
		s.UserStack = c.stack()
	}
	if t&(SampleWeight|SampleWeightStruct) != 0 {
		s.Weight = c.u64()
	}
	if t&SampleDataSrc != 0 {
		s.DataSrc = c.u64()
	}
	if t&SampleTransaction != 0 {
		s.Transaction = c.u64()
	}
	if t&SampleRegsIntr != 0 {
		s.IntrABI, s.IntrRegs = c.regs(s.IntrRegs, f.RegsIntr)
	}
	for _, x := range [...]struct {
		bit uint64
		to  *uint64
	}{
		{SamplePhysAddr, &s.PhysAddr},
		{SampleCgroup, &s.Cgroup},
		{SampleDataPageSize, &s.DataPageSize},
		{SampleCodePageSize, &s.CodePageSize},
	} {
		if t&x.bit != 0 {
			*x.to = c.u64()
		}
	}
	if t&SampleAux != 0 {
		s.Aux = c.bytes(c.u64())
	}
}

// reset clears s, but keeps the memory of its slices.
func (s *Sample) reset() {
	*s = Sample{
		Read: s.Read[:0], Callchain: s.Callchain[:0], Branches: s.Branches[:0], BranchIndex: -1,
		BranchCounters: s.BranchCounters[:0], UserRegs: s.UserRegs[:0], IntrRegs: s.IntrRegs[:0],
	}
}

func (f *Format) sampleHead(c *cursor, s *Sample) {
	t := f.SampleType
	if t&SampleIdentifier != 0 {
		s.ID = c.u64()
	}
	if t&SampleIP != 0 {
		s.IP = c.u64()
	}
	if t&SampleTID != 0 {
		s.PID, s.TID = c.u32(), c.u32()
	}
	if t&SampleTime != 0 {
		s.Time = c.u64()
	}
	if t&SampleAddr != 0 {
		s.Addr = c.u64()
	}
	if t&SampleEventID != 0 {
		s.ID = c.u64()
	}
	if t&SampleStreamID != 0 {
		s.StreamID = c.u64()
	}
	if t&SampleCPU != 0 {
		s.CPU = c.u32()
		c.u32()
	}
	if t&SamplePeriod != 0 {
		s.Period = c.u64()
	}
}

// sampleRead decodes a read in a sample (perf_output_read).
func (f *Format) sampleRead(c *cursor, s *Sample) {
	n := uint64(1)
	group := f.ReadFormat&FormatGroup != 0
	var v ReadValue
	if group {
		n = c.u64()
	} else {
		v.Value = c.u64()
	}
	if f.ReadFormat&FormatEnabled != 0 {
		s.Enabled = c.u64()
	}
	if f.ReadFormat&FormatRunning != 0 {
		s.Running = c.u64()
	}
	for ; n > 0 && !c.short; n-- {
		if group {
			v.Value = c.u64()
		}
		if f.ReadFormat&FormatID != 0 {
			v.ID = c.u64()
		}
		if f.ReadFormat&FormatLost != 0 {
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

// regs decodes an ABI and, unless it is 0, a register for each bit of mask.
func (c *cursor) regs(dst []uint64, mask uint64) (abi uint64, regs []uint64) {
	if abi = c.u64(); abi == 0 {
		return 0, dst
	}
	return abi, c.words(dst, uint64(bits.OnesCount64(mask)))
}

// stack decodes a copy of the user stack: its size, the bytes, and the number of valid bytes,
// which is missing if the size is 0.
func (c *cursor) stack() []byte {
	size := c.u64()
	if size == 0 {
		return nil
	}
	b := c.bytes(size)
	valid := c.u64()
	return b[:min(valid, uint64(len(b)))]
}
