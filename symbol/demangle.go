package symbol

import (
	"sync"

	"github.com/ianlancetaylor/demangle"
)

// Demangler turns mangled C++ (Itanium ABI) and Rust (legacy and v0) names into
// readable ones and remembers the result, within a bound: demangling a name
// costs some 10 µs, looking it up again some 50 ns. Names of other languages are
// returned as they are. It is safe for concurrent use.
type Demangler struct {
	opts []demangle.Option
	mu   sync.Mutex
	memo memo[string, string] // guarded by mu
}

// DemangleOptions says how names are written. The zero value, or nil, writes
// them in full.
type DemangleOptions struct {
	// NoParams leaves function parameters out: "ns::f" for "ns::f(int)".
	NoParams bool
	// NoTemplateParams leaves template arguments out as well.
	NoTemplateParams bool
	// Limit is the most memory, in bytes, for remembered names; 0 is 4 MiB.
	Limit int64
}

// maxMangled is the longest name that is demangled. The result of a name can be
// exponentially longer than it (substitutions), which maxDemangled bounds.
const (
	maxMangled   = 16 << 10
	maxDemangled = 15 // demangle.MaxLength takes the power of two: 32 KiB
)

// NewDemangler returns a demangler; opts may be nil.
func NewDemangler(opts *DemangleOptions) *Demangler {
	if opts == nil {
		opts = &DemangleOptions{}
	}
	d := &Demangler{}
	d.opts = append(d.opts, demangle.MaxLength(maxDemangled))
	if opts.NoParams || opts.NoTemplateParams {
		d.opts = append(d.opts, demangle.NoParams)
	}
	if opts.NoTemplateParams {
		d.opts = append(d.opts, demangle.NoTemplateParams)
	}
	d.memo.limit = opts.Limit
	if d.memo.limit <= 0 {
		d.memo.limit = 4 << 20
	}
	d.memo.costFunc = func(s string) int64 { return int64(2 * len(s)) }
	return d
}

// Demangle returns the readable form of name, or name itself.
func (d *Demangler) Demangle(name string) string {
	if d == nil || !mangled(name) {
		return name
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.memo.get(name); ok {
		return s
	}
	s := d.demangle(name)
	d.memo.put(name, s)
	return s
}

// demangle is Demangle without the memory.
func (d *Demangler) demangle(name string) string {
	if d == nil || !mangled(name) || len(name) > maxMangled {
		return name
	}
	s, err := demangle.ToString(name, d.opts...)
	if err != nil || s == "" {
		return name
	}
	return s
}

// mangled is the cheap test that spares most names the demangler: C++ and
// legacy Rust begin with _Z (after an underscore more on macOS), Rust v0 with _R.
func mangled(name string) bool {
	if len(name) < 3 || name[0] != '_' {
		return false
	}
	return name[1] == 'Z' || name[1] == 'R' || name[1] == '_' && (name[2] == 'Z' || name[2] == 'R')
}
