package userpage

import (
	"math"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestPage checks the protocol on recorded pages: sign extension, offsets, the clock, a page
// that changes while it is read, and one that never stops changing.
func TestPage(t *testing.T) {
	cpu := func(pmc, clock uint64) *cpuCounters {
		return &cpuCounters{counter: func(uint32) uint64 { return pmc }, clock: func() uint64 { return clock }}
	}
	p := Page{lock: 2, index: 1, offset: 1000, width: 48, caps: capUserRDPMC, enabled: 500, running: 400}
	// A counter that has not overflowed yet is negative: 2^48-200 is -200.
	if v, en, run, ok := p.read(cpu(1<<48-200, 0)); !ok || v != 800 || en != 500 || run != 400 {
		t.Error(v, en, run, ok)
	}
	if v, ok := p.readValue(cpu(50, 0)); !ok || v != 1050 {
		t.Error(v, ok)
	}
	p.width = 64
	if v, ok := p.readValue(cpu(math.MaxUint64, 0)); !ok || v != 999 {
		t.Error(v, ok)
	}
	// Clock: 2 ns a tick (mult 2, shift 0), last update at tick 1000.
	p.caps |= capUserTime
	p.timeMult, p.timeOffset = 2, ^uint64(2000)+1
	if _, en, run, ok := p.read(cpu(0, 1500)); !ok || en != 1500 || run != 1400 {
		t.Error(en, run, ok)
	}
	// 128-bit products: tick 2^62 at 1 ns (mult 2^31, shift 31).
	p.timeMult, p.timeShift, p.timeOffset = 1<<31, 31, ^uint64(1<<62)+1
	if _, en, _, ok := p.read(cpu(0, 1<<62+7)); !ok || en != 507 {
		t.Error(en, ok)
	}
	// A short clock has wrapped since the update.
	p.caps |= capUserTimeShort
	p.timeMult, p.timeShift, p.timeCycles, p.timeMask, p.timeOffset = 1, 0, 0xfff0, 0xffff, ^uint64(0xfff0)+1
	if _, en, _, ok := p.read(cpu(0, 0x0010)); !ok || en != 532 {
		t.Error(en, ok)
	}
	for _, q := range []Page{{index: 0, caps: capUserRDPMC}, {index: 1}} {
		if _, _, _, ok := q.read(cpu(1, 1)); ok {
			t.Errorf("%+v was read", q)
		}
		if _, ok := q.readValue(cpu(1, 1)); ok {
			t.Errorf("%+v was read", q)
		}
	}
	p = Page{lock: 2, index: 1, offset: 10, width: 48, caps: capUserRDPMC}
	reads := 0
	moving := &cpuCounters{counter: func(uint32) uint64 {
		if reads++; reads == 1 {
			p.lock, p.offset = 4, 20 // the kernel wrote the page meanwhile
		}
		return 5
	}}
	if v, ok := p.readValue(moving); !ok || v != 25 || reads != 2 {
		t.Error(v, ok, reads)
	}
	restless := &cpuCounters{counter: func(uint32) uint64 { p.lock += 2; return 5 }}
	if _, ok := p.readValue(restless); ok {
		t.Error("a page that never rests was read")
	}
	p.lock = 3
	if _, ok := p.readValue(cpu(5, 0)); ok {
		t.Error("a page that is being written was read")
	}
}
