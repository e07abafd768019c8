package provider

import (
	"strings"
	"sync/atomic"

	"github.com/borescope/borescope/internal/usdtfire"
)

// Probe is one probe of a Provider. It is safe for concurrent use.
type Probe struct {
	// semaphore is the counter that tracers increment, nil before the first Load. Its 16
	// bits are alone in an aligned word.
	semaphore atomic.Pointer[uint32]
	// stub is the address of the nop, 0 while the provider is not loaded.
	stub atomic.Uintptr
	fire usdtfire.Probe
}

// Enabled reports whether a tracer is attached, so that it is worth preparing arguments for
// Fire. It allocates nothing and takes less than a nanosecond.
func (p *Probe) Enabled() bool {
	s := p.semaphore.Load()
	return s != nil && atomic.LoadUint32(s) != 0
}

// Name returns the probe's name.
func (p *Probe) Name() string {
	_, name, _ := strings.Cut(p.fire.Name, ":")
	return name
}

// Fire fires the probe with one value for each of its types. The integer types take any integer
// or bool, also of a named type; Pointer takes these and any pointer; String and CString take a
// string or []byte. Integers are converted as Go converts them, to the width of the type.
//
// It returns when tracers are done with it. Fire does nothing while the
// provider is not loaded; it does not ask Enabled. The error, an
// arg.ErrMismatch, is of the kind that a test finds, and may be ignored in
// production.
func (p *Probe) Fire(args ...any) error {
	// Short enough to be inlined: after the kernel's trap the processor mispredicts every
	// return.
	if stub := p.stub.Load(); stub != 0 {
		return p.fire.Fire(stub, args)
	}
	return nil
}
