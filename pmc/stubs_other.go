//go:build !linux

package pmc

import "context"

// Counters are open events that only count. There are none on this system.
type Counters struct{}

// Open needs Linux.
func Open([]Event, Scope, *CountOptions) (*Counters, error) { return nil, noPerf() }

// OpenGroups needs Linux.
func OpenGroups([][]Event, Scope, *CountOptions) (*Counters, error) { return nil, noPerf() }

// Enable needs Linux.
func (c *Counters) Enable() error { return noPerf() }

// Disable needs Linux.
func (c *Counters) Disable() error { return noPerf() }

// Reset needs Linux.
func (c *Counters) Reset() error { return noPerf() }

// Events needs Linux.
func (c *Counters) Events() []Event { return nil }

// Groups needs Linux.
func (c *Counters) Groups() int { return 0 }

// Handles needs Linux.
func (c *Counters) Handles(Event) []*Handle { return nil }

// Read needs Linux.
func (c *Counters) Read(*Counts) error { return noPerf() }

// Close does nothing.
func (c *Counters) Close() error { return nil }

// Meter counts for the thread that opened it. There is none on this system.
type Meter struct{}

// OpenMeter needs Linux.
func OpenMeter([]Event, *CountOptions) (*Meter, error) { return nil, noPerf() }

// UserReads needs Linux.
func (m *Meter) UserReads() bool { return false }

// Values needs Linux.
func (m *Meter) Values([]uint64) error { return noPerf() }

// Read needs Linux.
func (m *Meter) Read(*Counts) error { return noPerf() }

// Events needs Linux.
func (m *Meter) Events() []Event { return nil }

// Close does nothing.
func (m *Meter) Close() error { return nil }

// Sampler is an event that writes a record at each overflow. There is none on
// this system.
type Sampler struct{}

// OpenSampler needs Linux.
func OpenSampler(Event, Scope, SamplingSpec, *SamplerOptions) (*Sampler, error) {
	return nil, noPerf()
}

// Enable needs Linux.
func (sm *Sampler) Enable() error { return noPerf() }

// Disable needs Linux.
func (sm *Sampler) Disable() error { return noPerf() }

// Precise needs Linux.
func (sm *Sampler) Precise() int { return 0 }

// Handles needs Linux.
func (sm *Sampler) Handles() []*Handle { return nil }

// Stats needs Linux.
func (sm *Sampler) Stats() SamplerStats { return SamplerStats{} }

// TryRead needs Linux.
func (sm *Sampler) TryRead(*Record) (bool, error) { return false, noPerf() }

// ReadInto needs Linux.
func (sm *Sampler) ReadInto(context.Context, *Record) error { return noPerf() }

// Close does nothing.
func (sm *Sampler) Close() error { return nil }
