package static

import (
	"sync/atomic"

	"github.com/borescope/borescope/internal/usdtfire"
)

// Type is the type of a probe's argument, as tracers see it.
type Type = usdtfire.Type

// The types; package provider describes them.
const (
	Int8    = usdtfire.Int8
	Int16   = usdtfire.Int16
	Int32   = usdtfire.Int32
	Int64   = usdtfire.Int64
	Uint8   = usdtfire.Uint8
	Uint16  = usdtfire.Uint16
	Uint32  = usdtfire.Uint32
	Uint64  = usdtfire.Uint64
	Pointer = usdtfire.Pointer
	String  = usdtfire.String
	CString = usdtfire.CString
)

// ArgumentError reports that Fire was called with arguments that do not fit the probe's types.
// The probe did not fire.
type ArgumentError = usdtfire.ArgumentError

// MaxProbes is the maximum number of probes of a program.
const MaxProbes = usdtfire.PoolSize

// Probe is one probe. It must not be copied, and is safe for concurrent use.
//
// Command usdtlink finds it in the file by its first field and sets the index; the layout is
// part of that protocol.
type Probe struct {
	mark [2]uint64
	// semaphore is the 16-bit counter that tracers increment, in a word of its own.
	semaphore uint32
	// index is the number of the probe's stub, from 1; 0 in a program that usdtlink has not
	// processed.
	index uint32
	name  string // "PROVIDER:NAME"
	types []Type
}

// New returns a probe. It must initialize a package-level variable, with constants. Names
// consist of letters, digits, '_', '-' and '.'. At most usdt.MaxArgs arguments are allowed, of
// which a String counts as two. usdtlink checks this.
func New(provider, name string, args ...Type) Probe {
	return Probe{mark: [2]uint64{usdtfire.ProbeMark0, usdtfire.ProbeMark1}, name: provider + ":" + name, types: args}
}

// Enabled reports whether a tracer is attached, so that it is worth preparing arguments for
// Fire. It allocates nothing and takes less than a nanosecond.
func (p *Probe) Enabled() bool { return atomic.LoadUint32(&p.semaphore) != 0 }

// Fire fires the probe with one value for each of its types, as provider.Probe.Fire does. It
// does nothing in a program that usdtlink has not processed, and does not check Enabled.
func (p *Probe) Fire(args ...any) error {
	if index := atomic.LoadUint32(&p.index); index != 0 {
		probe := usdtfire.Probe{Name: p.name, Types: p.types}
		return probe.Fire(usdtfire.Stub(index), args)
	}
	return nil
}
