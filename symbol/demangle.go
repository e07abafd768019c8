package symbol

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ianlancetaylor/demangle"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/rustv0"
	"github.com/borescope/borescope/symbol/internal/index"
)

// Demangler turns mangled C++ (Itanium ABI) and Rust (legacy and v0) names into readable ones
// and keeps results in bounded memory: demangling a name costs some 10 µs, looking it up again
// some 50 ns. It returns names of other languages unchanged. It is safe for concurrent use.
type Demangler struct {
	opts []demangle.Option
	// budget is DemangleOptions.Budget, and excess what was used of it.
	budget int64
	excess atomic.Int64

	mu   sync.Mutex
	memo index.Memo[string, string] // guarded by mu
}

// DemangleOptions are the options for writing names. The zero value, or nil, writes them in
// full.
type DemangleOptions struct {
	// NoParams leaves function parameters out: "ns::f" for "ns::f(int)".
	NoParams bool
	// NoTemplateParams leaves template arguments out as well.
	NoTemplateParams bool
	// Limit is the most memory, in bytes, for kept names; 0 is 4 MiB.
	Limit int64
	// Budget bounds the work for names that are much longer when readable, as malicious files
	// have them: a name of some hundred bytes can take a thousand times as long as usual. It is
	// the number of bytes by which all readable names together may exceed 16 times the mangled
	// ones. Beyond it names stay mangled, and Err returns an error. 0 means no bound.
	Budget int64
}

// maxGrowth is how many times longer the readable form of a name is before it counts: names of
// large C++ libraries become 10 times as long, and few of them.
const maxGrowth = 16

// maxMangled is the longest name that is demangled. The result of a name can be
// exponentially longer than it (substitutions), which maxDemangled bounds.
const (
	maxMangled   = 16 << 10
	maxDemangled = 15 // demangle.MaxLength takes the power of two: 32 KiB
)

// maxMembers is the most members of template instances in one name for which the
// demangler's result is checked.
const maxMembers = 16

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
	d.budget = opts.Budget
	d.memo.Limit = opts.Limit
	if d.memo.Limit <= 0 {
		d.memo.Limit = 4 << 20
	}
	d.memo.CostFunc = func(s string) int64 { return int64(2 * len(s)) }
	return d
}

// Demangle returns the readable form of name, or name itself.
func (d *Demangler) Demangle(name string) string {
	if d == nil || !mangled(name) {
		return name
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s, ok := d.memo.Get(name); ok {
		return s
	}
	s := d.demangle(name)
	d.memo.Put(name, s)
	return s
}

// demangle is Demangle without the cache.
func (d *Demangler) demangle(name string) string {
	if d == nil || !mangled(name) || len(name) > maxMangled || d.Err() != nil {
		return name
	}
	if misread(name) {
		return name
	}
	s, err := demangle.ToString(rustv0.Plain(plainLegacy(name)), d.opts...)
	if more := len(s) - maxGrowth*len(name); more > 0 {
		d.excess.Add(int64(more))
	}
	if err != nil || s == "" {
		return name
	}
	return s
}

// Err returns an error if the Budget is exceeded: names may have stayed mangled. It is nil
// without a Budget. It is safe for concurrent use.
func (d *Demangler) Err() error {
	if d == nil || d.budget <= 0 || d.excess.Load() <= d.budget {
		return nil
	}
	return fmt.Errorf("readable names exceed %d times the mangled ones by more than %d bytes: %w",
		maxGrowth, d.budget, elffile.ErrTooLarge)
}

// misread reports whether the demangler would return a wrong name. If an expression refers to a
// member of a template instance, as std::swap's does ("sr", names, arguments), the demangler
// counts a substitution too many, and so resolves later substitutions wrongly. Those counted
// before stay right.
func misread(name string) bool {
	// Each member costs a parse. Usual names have a handful of members, hostile ones thousands.
	members := 0
	for rest := name; ; {
		var ok bool
		if _, rest, ok = strings.Cut(rest, "sr"); !ok {
			return false
		}
		args, ok := instance(rest)
		if !ok {
			continue
		}
		last := lastSubstitution(args)
		if last < 0 {
			return false
		}
		if members++; members > maxMembers || !counts(name, len(name)-len(args), last+1) {
			return true
		}
	}
}

// instance returns the template arguments after the names that follow "sr", from behind their
// "I".
func instance(rest string) (args string, ok bool) {
	rest, nested := strings.CutPrefix(rest, "N")
	if scope, ok := strings.CutPrefix(rest, "S"); nested && ok {
		rest = strings.TrimPrefix(strings.TrimLeft(scope, base36), "_")
	}
	for {
		n, i := 0, 0
		for ; i < len(rest) && rest[i]-'0' <= 9 && n < maxMangled; i++ {
			n = 10*n + int(rest[i]-'0')
		}
		if n == 0 || n >= len(rest)-i {
			return rest, nested
		}
		if rest = rest[i+n:]; rest[0] == 'I' {
			return rest[1:], true
		}
	}
}

// lastSubstitution returns the highest number of a substitution in a mangled name, as the
// demangler counts them: S_ is 0, S0_ 1; -1 if there is none.
func lastSubstitution(name string) int {
	last := -1
	for ok := true; ok; {
		if _, name, ok = strings.Cut(name, "S"); !ok {
			break
		}
		digits := name[:len(name)-len(strings.TrimLeft(name, base36))]
		if !strings.HasPrefix(name[len(digits):], "_") {
			continue
		}
		n := int64(-1)
		if digits != "" {
			var err error
			if n, err = strconv.ParseInt(digits, 36, 32); err != nil {
				return maxMangled // more than any name has
			}
		}
		last = max(last, int(n)+1)
	}
	return last
}

// counts reports whether the demangler has counted substitution n by the place where template
// arguments begin: then it accepts n as one more argument there.
func counts(name string, at, n int) bool {
	ref := "S_"
	if n > 0 {
		ref = "S" + strings.ToUpper(strconv.FormatInt(int64(n-1), 36)) + "_"
	}
	_, err := demangle.ToAST(name[:at] + ref + name[at:])
	return err == nil
}

const base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// mangled reports whether a name may be mangled, a cheap test that saves demangling most names:
// C++ and legacy Rust begin with _Z (after one more underscore on macOS), Rust v0 with _R.
func mangled[T string | []byte](name T) bool {
	if len(name) < 3 || name[0] != '_' {
		return false
	}
	return name[1] == 'Z' || name[1] == 'R' || name[1] == '_' && (name[2] == 'Z' || name[2] == 'R')
}
