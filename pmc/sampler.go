package pmc

import (
	"io/fs"

	"github.com/borescope/borescope/internal/perfring"
)

// Record is one record of a Sampler: a sample, or one of the others that a SamplingSpec
// asks for. Its methods (IsSample, IsComm, …) say which it is, and so which of its parts
// holds it. Its slices are reused by the next Sampler.ReadInto.
//
//	IsSample                Sample; InKernel, ExactIP
//	IsLost                  Lost
//	IsComm                  Comm
//	IsFork, IsExit          Task
//	IsMmap                  Mmap; HoldsCode
//	IsSwitch                Switch; Out, Preempted
//	IsKsymbol               Ksymbol
//	IsBPF                   BPF
//	IsCgroup                Cgroup
//	IsThrottle, IsUnthrottle  Rate
type Record = perfring.Record

// Sample is the Sample part of a Record.
type Sample = perfring.Sample

// SamplerStats counts what went through a Sampler's rings.
type SamplerStats = perfring.Stats

// SamplerOptions says how a Sampler is opened. A nil *SamplerOptions is the
// zero value.
type SamplerOptions struct {
	// Pages is the size of each ring in pages, a power of two; 0 is 64 (256 KiB
	// with pages of 4 KiB). Without CAP_IPC_LOCK the kernel allows
	// kernel.perf_event_mlock_kb for each user and CPU (516 KiB by default).
	Pages int
	// Inherit, EnableOnExec and Disabled are as in CountOptions. The kernel
	// gives an inherited event no ring unless it is bound to a CPU, so Inherit
	// opens it once for each online CPU.
	Inherit, EnableOnExec, Disabled bool
	// ExactPrecise is as in OpenOptions.
	ExactPrecise bool
	// Root is where the machine's files are read; nil is this machine.
	Root fs.FS
}

// format is what the records' layout depends on.
func (s *SamplingSpec) format(readFormat uint64) perfring.Format {
	return perfring.Format{
		SampleType: s.sampleType(), ReadFormat: readFormat, BranchSampleType: s.Branches,
		RegsUser: s.UserRegs, RegsIntr: s.InterruptRegs, SampleIDAll: s.records() != 0,
	}
}
