// Package userpage reads a perf event's counter in user space, with the page that the kernel
// maps for the event.
package userpage

import (
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

// Page is the part of struct perf_event_mmap_page (include/uapi/linux/perf_event.h) that a
// thread needs to read its own counter without a system call.
type Page struct {
	version, compat uint32
	lock            uint32
	index           uint32
	offset          int64
	enabled         uint64
	running         uint64
	caps            uint64
	width           uint16
	timeShift       uint16
	timeMult        uint32
	timeOffset      uint64
	timeZero        uint64
	size            uint32
	_               uint32
	timeCycles      uint64
	timeMask        uint64
}

var _ [0]struct{} = [96 - unsafe.Sizeof(Page{})]struct{}{}

// Capabilities of the page.
const (
	capUserRDPMC     = 1 << 2
	capUserTime      = 1 << 3
	capUserTimeShort = 1 << 5
)

// At returns the page that was mapped at the beginning of mem.
func At(mem []byte) *Page { return (*Page)(unsafe.Pointer(&mem[0])) }

// Value reads the count on the CPU that this thread runs on. ok is false if that is not
// possible: reading is not permitted, it is a software event, or it is not on a counter now.
// Use read(2) then.
func (p *Page) Value() (value uint64, ok bool) { return p.readValue(&thisCPU) }

// Times is Value with the times for which the event was enabled, and counted.
func (p *Page) Times() (value uint64, enabled, running time.Duration, ok bool) {
	return p.read(&thisCPU)
}

// HasClock reports whether Times returns current times, not those of the last switch.
func (p *Page) HasClock() bool { return p.caps&capUserTime != 0 }

// cpuCounters reads the CPU's own registers: the counter with the page's index minus one, and
// the clock that the page's times are in.
type cpuCounters struct {
	counter func(index uint32) uint64
	clock   func() uint64
}

// maxTries bounds the retries of the seqlock. The kernel writes the page at context switches
// and when a timer rotates events, so a second try is rare.
const maxTries = 16

// read follows the protocol of perf_event.h.
func (p *Page) read(cpu *cpuCounters) (value uint64, enabled, running time.Duration, ok bool) {
	for range maxTries {
		// The kernel changes the page on this CPU, so program order is enough, and Go's atomics
		// keep the compiler from changing that.
		seq := atomic.LoadUint32(&p.lock)
		caps := atomic.LoadUint64(&p.caps)
		index := atomic.LoadUint32(&p.index)
		if caps&capUserRDPMC == 0 || index == 0 {
			return 0, 0, 0, false
		}
		en, run := atomic.LoadUint64(&p.enabled), atomic.LoadUint64(&p.running)
		if caps&capUserTime != 0 {
			delta := p.sinceUpdate(cpu.clock(), caps)
			en += delta
			run += delta
		}
		pmc := cpu.counter(index - 1)
		count := atomic.LoadInt64(&p.offset) + signExtend(pmc, p.width)
		if seq&1 == 0 && atomic.LoadUint32(&p.lock) == seq {
			return uint64(count), time.Duration(en), time.Duration(run), true
		}
	}
	return 0, 0, 0, false
}

// readValue is read without the times: one try in the fewest instructions, then read if the
// page changed meanwhile.
func (p *Page) readValue(cpu *cpuCounters) (value uint64, ok bool) {
	seq := atomic.LoadUint32(&p.lock)
	index := p.index
	if index == 0 || p.caps&capUserRDPMC == 0 {
		return 0, false
	}
	value = uint64(p.offset + signExtend(cpu.counter(index-1), p.width))
	if atomic.LoadUint32(&p.lock) == seq && seq&1 == 0 {
		return value, true
	}
	value, _, _, ok = p.read(cpu)
	return value, ok
}

// signExtend interprets the counter's lowest width bits, 1 to 64 (or 0 for 64), as a signed
// number, as the page's offset requires.
func signExtend(v uint64, width uint16) int64 {
	shift := (64 - width) & 63
	return int64(v<<shift) >> shift
}

// sinceUpdate returns the time in nanoseconds since the kernel wrote the page's times.
func (p *Page) sinceUpdate(cycles, caps uint64) uint64 {
	if caps&capUserTimeShort != 0 {
		// The clock has fewer than 64 bits and may have wrapped since.
		cycles = p.timeCycles + (cycles-p.timeCycles)&p.timeMask
	}
	// time_offset is minus the time of the last update, so the sum wraps to the time since
	// (arch_perf_update_userpage).
	hi, lo := bits.Mul64(cycles, uint64(p.timeMult))
	shift := p.timeShift & 63
	return p.timeOffset + lo>>shift + hi<<(64-shift)
}
