package perfdata

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"slices"

	"github.com/borescope/borescope/stack"
)

// Options describe the event of Write. The zero value and nil are call chains of cpu-clock.
type Options struct {
	// Machine is elf.EM_X86_64 (the meaning of 0) or elf.EM_AARCH64.
	Machine elf.Machine
	// Type and Config are those of the event, as in struct perf_event_attr; both 0 means
	// cpu-clock.
	Type   uint32
	Config uint64
	// UserStacks writes Regs and Stack instead of the chain's user part, where a
	// sample has them: perf then walks the stack itself, as after perf record
	// --call-graph dwarf. It reads call frame information through the mappings
	// of Modules.Data.
	UserStacks bool
}

// The layout of what is written: include/uapi/linux/perf_event.h.
const (
	perfAttrSize = 128
	perfTypeSW   = 1 // PERF_TYPE_SOFTWARE; its event 0 is cpu-clock

	perfSampleIP, perfSampleTID, perfSampleTime = 1 << 0, 1 << 1, 1 << 2
	perfSampleCallchain, perfSampleCPU          = 1 << 5, 1 << 7
	perfSamplePeriod                            = 1 << 8

	perfSampleRegsUser, perfSampleStackUser = 1 << 12, 1 << 13

	perfFlagMmap, perfFlagComm, perfFlagIDAll, perfFlagMmap2 = 1 << 8, 1 << 9, 1 << 18, 1 << 23
	perfFlagMmapData                                         = 1 << 17

	perfRecComm, perfRecSample, perfRecMmap2 = 3, 9, 10
	perfMiscKernel, perfMiscUser             = 1, 2
	perfMiscMmapData                         = 1 << 13

	perfMaxRecord = 65528 // a record's length is 16 bits
)

// perfContextKernel and User stand before the parts of a call chain.
const perfContextKernel, perfContextUser = ^uint64(127), ^uint64(511)

// Write writes a perf.data file that perf script and perf report read. It writes the
// samples in their order. Before a process's first one, and where they change, it writes
// its name and its modules. The samples' records are held in memory until all have been
// read.
//
// Of a sample's stack it writes Chain and KernelFrames, or IP alone: stacks must be walked
// before, or left to perf by Options.UserStacks.
func Write(w io.Writer, samples iter.Seq[*Sample], o *Options) error {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Type == 0 && opts.Config == 0 {
		opts.Type = perfTypeSW
	}
	if opts.Machine == 0 {
		opts.Machine = elf.EM_X86_64
	}
	arch, ok := map[elf.Machine]string{
		elf.EM_X86_64:  "x86_64",
		elf.EM_AARCH64: "aarch64",
	}[opts.Machine]
	if !ok {
		return fmt.Errorf("perf.data of %v: %w", opts.Machine, errors.ErrUnsupported)
	}
	p := perfWriter{opts: opts, comms: make(map[[2]int]string), mods: make(map[int]*stack.Modules)}
	for s := range samples {
		p.follow(s)
		p.sample(s)
	}
	_, err := w.Write(slices.Concat(p.header(len(p.data)), p.attr(), p.data, p.arch(arch)))
	return err
}

// perfWriter builds the records.
type perfWriter struct {
	opts  Options
	data  []byte
	comms map[[2]int]string      // by process and thread
	mods  map[int]*stack.Modules // what was written of a process
}

// record appends a record whose body fill appends.
func (p *perfWriter) record(typ uint32, misc uint16, fill func(b []byte) []byte) {
	at := len(p.data)
	b := binary.LittleEndian.AppendUint32(p.data, typ)
	b = binary.LittleEndian.AppendUint16(b, misc)
	b = fill(append(b, 0, 0))
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	binary.LittleEndian.PutUint16(b[at+6:], uint16(len(b)-at))
	p.data = b
}

func words64(b []byte, words ...uint64) []byte {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func pair32(lo, hi int) uint64 { return uint64(uint32(lo)) | uint64(uint32(hi))<<32 }

// text appends a string that ends with a zero, filled up to words.
func text(b []byte, s string, most int) []byte {
	b = append(append(b, s[:min(len(s), most)]...), 0)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// id appends what all records but samples end with (sample_id_all).
func (p *perfWriter) id(b []byte, s *Sample) []byte {
	return words64(b, pair32(s.PID, s.TID), uint64(s.Time), pair32(s.CPU, 0))
}

// follow writes what perf does not know yet of the sample's process.
func (p *perfWriter) follow(s *Sample) {
	thread := [2]int{s.PID, s.TID}
	if name, ok := p.comms[thread]; s.Comm != "" && (!ok || name != s.Comm) {
		p.comms[thread] = s.Comm
		p.record(perfRecComm, 0, func(b []byte) []byte {
			return p.id(text(words64(b, pair32(s.PID, s.TID)), s.Comm, 15), s)
		})
	}
	if s.Modules == nil || p.mods[s.PID] == s.Modules {
		return
	}
	p.mods[s.PID] = s.Modules
	const read, exec = 1, 5
	if p.opts.UserStacks {
		data := s.Modules.Data()
		for i := range data {
			p.mapping(s, &data[i], perfMiscUser|perfMiscMmapData, read)
		}
	}
	code := s.Modules.All()
	for i := range code {
		p.mapping(s, &code[i], perfMiscUser, exec)
	}
}

func (p *perfWriter) mapping(s *Sample, m *stack.Module, misc uint16, prot int) {
	if m.Name == "" {
		return
	}
	p.record(perfRecMmap2, misc, func(b []byte) []byte {
		const device, inode, private = 0, 0, 2 // perf then goes by the name
		b = words64(b, pair32(s.PID, s.TID), m.Start, m.End-m.Start, m.Offset, device, inode, 0,
			pair32(prot, private))
		return p.id(text(b, m.Name, 4096), s)
	})
}

func (p *perfWriter) sample(s *Sample) {
	at := len(p.data)
	misc := uint16(perfMiscUser)
	if s.Kernel {
		misc = perfMiscKernel
	}
	p.record(perfRecSample, misc, func(b []byte) []byte {
		b = p.chain(words64(b, s.IP, pair32(s.PID, s.TID), uint64(s.Time), pair32(s.CPU, 0),
			max(s.Period, 1)), s)
		if p.opts.UserStacks {
			b = p.userStack(b, s, len(b)-at)
		}
		return b
	})
}

// userStack appends the registers and the stack, as much as a record of which n
// bytes are used can hold.
func (p *perfWriter) userStack(b []byte, s *Sample, n int) []byte {
	if s.Regs == nil {
		return words64(b, abiNone, 0)
	}
	at := len(b)
	abi, numbers := uint64(abi64), &amd64PerfRegs
	switch s.Regs.Machine {
	case elf.EM_386:
		abi, numbers = abi32, &i386PerfRegs
	case elf.EM_ARM:
		abi = abi32
	}
	b = words64(b, abi)
	for mask := p.regsMask(); mask != 0; mask &= mask - 1 {
		num := bits.TrailingZeros64(mask)
		if p.opts.Machine == elf.EM_X86_64 {
			num = numbers[num]
		} else if abi == abi32 && num == stack.ARM64PC {
			num = stack.ARMPC
		}
		v, _ := s.Regs.Reg(num)
		b = words64(b, v)
	}
	var data []byte
	// perf counts from the stack pointer
	if below := s.Regs.SP() - s.Stack.Addr; below < uint64(len(s.Stack.Data)) {
		data = s.Stack.Data[below:]
	}
	room := perfMaxRecord - n - (len(b) - at) - 16 // the two lengths
	data = data[:min(len(data), room)&^7]
	b = append(words64(b, uint64(len(data))), data...)
	if len(data) > 0 {
		b = words64(b, uint64(len(data)))
	}
	return b
}

// regsMask is the set of registers that are written, in perf's numbers.
func (p *perfWriter) regsMask() uint64 {
	if p.opts.Machine == elf.EM_AARCH64 {
		return 1<<(stack.ARM64PC+1) - 1
	}
	const general, extended = 0x1ff, 0xff << 16 // enum perf_event_x86_regs
	return general | extended
}

// chain appends the call chain, no longer than a record can be; of the kernel
// only where perf walks the rest.
func (p *perfWriter) chain(b []byte, s *Sample) []byte {
	const most = 4096
	chain, kernel := s.Chain, min(s.KernelFrames, len(s.Chain))
	switch {
	case p.opts.UserStacks && s.Regs != nil:
		chain = chain[:kernel]
	case len(chain) == 0 && s.IP != 0:
		chain = []uint64{s.IP}
		if s.Kernel {
			kernel = 1
		}
	}
	chain = chain[:min(len(chain), most)]
	kernel = min(kernel, len(chain))
	at := len(b)
	b = words64(b, 0)
	if kernel > 0 {
		b = words64(words64(b, perfContextKernel), chain[:kernel]...)
	}
	if kernel < len(chain) {
		b = words64(words64(b, perfContextUser), chain[kernel:]...)
	}
	binary.LittleEndian.PutUint64(b[at:], uint64((len(b)-at)/8-1))
	return b
}

// header is struct perf_file_header, for data of n bytes.
func (p *perfWriter) header(n int) []byte {
	b := []byte(magic)
	const attr = perfAttrSize + 16
	b = words64(b, headerSize, attr, headerSize, attr, headerSize+attr, uint64(n), 0, 0)
	return words64(b, 1<<perfFeatArch, 0, 0, 0)
}

// attr is struct perf_event_attr and the section of its ids, which has none.
func (p *perfWriter) attr() []byte {
	b := make([]byte, perfAttrSize+16)
	le := binary.LittleEndian
	le.PutUint32(b, p.opts.Type)
	le.PutUint32(b[4:], perfAttrSize)
	le.PutUint64(b[8:], p.opts.Config)
	le.PutUint64(b[16:], 1) // period; each sample has its own
	kind := uint64(perfSampleIP | perfSampleTID | perfSampleTime | perfSampleCPU | perfSamplePeriod |
		perfSampleCallchain)
	flags := uint64(perfFlagMmap | perfFlagComm | perfFlagIDAll | perfFlagMmap2)
	if p.opts.UserStacks {
		kind |= perfSampleRegsUser | perfSampleStackUser
		flags |= perfFlagMmapData
		le.PutUint64(b[80:], p.regsMask())
		le.PutUint32(b[88:], perfMaxRecord)
	}
	le.PutUint64(b[24:], kind)
	le.PutUint64(b[40:], flags)
	return b
}

// arch is the table of features, with one: the machine's name.
func (p *perfWriter) arch(name string) []byte {
	const size = 4 + 64
	at := uint64(headerSize + perfAttrSize + 16 + len(p.data) + 16)
	b := words64(nil, at, size)
	b = binary.LittleEndian.AppendUint32(b, size-4)
	return append(append(b, name...), make([]byte, size-4-len(name))...)
}
