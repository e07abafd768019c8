package static

import (
	"sync/atomic"

	"github.com/borescope/borescope/internal/usdtfire"
	"github.com/borescope/borescope/usdt/arg"
)

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
	types []arg.Type
}

// New returns a probe. It is for initialising a package-level variable with
// constants; names consist of letters, digits, '_', '-' and '.', and there are
// at most usdt.MaxArgs arguments, of which a String is two: usdtlink checks.
func New(provider, name string, args ...arg.Type) Probe {
	return Probe{
		mark: [2]uint64{usdtfire.ProbeMark0, usdtfire.ProbeMark1},
		name: provider + ":" + name, types: args,
	}
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
