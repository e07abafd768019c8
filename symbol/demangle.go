package symbol

import (
	"strings"
	"sync"

	"github.com/ianlancetaylor/demangle"

	"github.com/borescope/borescope/internal/rustv0"
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
	if misread(name) {
		return name
	}
	s, err := demangle.ToString(rustv0.Plain(name), d.opts...)
	if err != nil || s == "" {
		return name
	}
	return s
}

// misread reports whether the demangler would give a false name: it counts a
// substitution too many where an expression refers to a member of a template
// instance, as std::swap's does ("sr", names, arguments), and so takes others for
// what later substitutions refer to.
func misread(name string) bool {
	for {
		var ok bool
		if _, name, ok = strings.Cut(name, "sr"); !ok {
			return false
		}
		rest, instance := strings.CutPrefix(name, "N")
		for !instance {
			n, i := 0, 0
			for ; i < len(rest) && rest[i]-'0' <= 9 && n < maxMangled; i++ {
				n = 10*n + int(rest[i]-'0')
			}
			if n == 0 || n >= len(rest)-i {
				break
			}
			rest = rest[i+n:]
			instance = rest[0] == 'I'
		}
		if instance && substituted(rest) {
			return true
		}
	}
}

// substituted reports whether a mangled name may have a numbered substitution.
func substituted(name string) bool {
	for ok := true; ok; {
		if _, name, ok = strings.Cut(name, "S"); ok && strings.HasPrefix(strings.TrimLeft(name, base36), "_") {
			return true
		}
	}
	return false
}

const base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// mangled is the cheap test that spares most names the demangler: C++ and
// legacy Rust begin with _Z (after an underscore more on macOS), Rust v0 with _R.
func mangled(name string) bool {
	if len(name) < 3 || name[0] != '_' {
		return false
	}
	return name[1] == 'Z' || name[1] == 'R' || name[1] == '_' && (name[2] == 'Z' || name[2] == 'R')
}
