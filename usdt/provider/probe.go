package provider

import (
	"strings"
	"sync/atomic"

	"github.com/borescope/borescope/internal/usdtfire"
)

// Type is the type of a probe's argument, as tracers see it.
type Type = usdtfire.Type

// The types.
const (
	Int8   = usdtfire.Int8
	Int16  = usdtfire.Int16
	Int32  = usdtfire.Int32
	Int64  = usdtfire.Int64
	Uint8  = usdtfire.Uint8
	Uint16 = usdtfire.Uint16
	Uint32 = usdtfire.Uint32
	Uint64 = usdtfire.Uint64
	// Pointer is an address.
	Pointer = usdtfire.Pointer
	// String is a Go string or byte slice without a copy. It takes two arguments: the
	// address of its bytes, and their number.
	String = usdtfire.String
	// CString is a copy of a string or byte slice followed by a NUL, for tracers and
	// scripts that expect C strings. The copy exists during Fire only. It is the only type
	// that costs an allocation there.
	CString = usdtfire.CString
)

// ArgumentError reports that Fire was called with arguments that do not fit the probe's types.
// The probe did not fire.
type ArgumentError = usdtfire.ArgumentError

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
// It returns when tracers have handled the event. Fire does nothing while the provider is not
// loaded; it does not check Enabled. The error is an *ArgumentError. It is a programming error
// that tests find, and may be ignored in production.
func (p *Probe) Fire(args ...any) error {
	// Short enough to be inlined: after the kernel's trap the processor mispredicts every
	// return.
	if stub := p.stub.Load(); stub != 0 {
		return p.fire.Fire(stub, args)
	}
	return nil
}
