package kallsyms

import (
	"bufio"
	"cmp"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/glob"
)

// Traceable is a list of kernel functions that can be probed.
type Traceable []Symbol

// ReadTraceable reads tracefs's available_filter_functions, lines of "NAME [MODULE]", or
// available_filter_functions_addrs (6.5), which has the address before them. It ignores
// annotations after them. The names are parts of one string.
func ReadTraceable(r io.Reader, addrs bool) (Traceable, error) {
	var blob strings.Builder
	blob.Grow(2 << 20)
	if _, err := io.CopyBuffer(&blob, onlyReader{io.LimitReader(r, maxBytes)},
		make([]byte, 256<<10)); err != nil {
		return nil, err
	}
	text := blob.String()
	out := make(Traceable, 0, len(text)/24)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		var s Symbol
		if addrs {
			addr, rest, ok := strings.Cut(line, " ")
			var err error
			if s.Address, err = strconv.ParseUint(addr, 16, 64); err != nil || !ok {
				continue
			}
			line = rest
		}
		name, rest, _ := strings.Cut(line, " ")
		if len(name) == 0 || strings.HasPrefix(name, "__ftrace_invalid_address__") {
			continue
		}
		s.Name = name
		if i := strings.IndexByte(rest, '['); i >= 0 {
			s.Module, _, _ = strings.Cut(rest[i+1:], "]")
		}
		out = append(out, s)
	}
	return out, nil
}

// onlyReader hides the other methods of a reader, so that the buffer is used.
type onlyReader struct{ io.Reader }

// Without returns the list without the functions on a blacklist.
func (t Traceable) Without(b Blacklist) Traceable {
	if len(b) == 0 {
		return t
	}
	out := make(Traceable, 0, len(t))
	for _, s := range t {
		if !b.Has(s.Name) {
			out = append(out, s)
		}
	}
	return out
}

// Stable returns the list without functions that the kernel lists although its own tests leave them
// out, since tracing all of them can stop a machine (tools/testing/selftests/bpf/trace_helpers.c).
func (t Traceable) Stable() Traceable {
	return slices.DeleteFunc(slices.Clone(t), func(s Symbol) bool {
		switch s.Name {
		case "arch_cpu_idle", "default_idle", "bpf_dispatcher_xdp_func":
			return true
		}
		return strings.HasPrefix(s.Name, "rcu_")
	})
}

// ByName returns the functions by name, nil if the list has no addresses.
func (t Traceable) ByName() map[string][]Symbol {
	if len(t) == 0 || t[0].Address == 0 {
		return nil
	}
	out := make(map[string][]Symbol, len(t))
	for i := range t {
		name := t[i].Name
		if have := out[name]; have != nil {
			out[name] = append(slices.Clone(have), t[i])
			continue
		}
		out[name] = t[i : i+1 : i+1]
	}
	return out
}

// Match returns the functions that match patterns for module and name. Module "" is any, and the
// kernel itself matches as "vmlinux". The slice must not be changed.
func (t Traceable) Match(module, pattern string) []Symbol {
	if module == "" && pattern == "*" {
		return t
	}
	g := glob.Compile(pattern)
	m := glob.Compile(module)
	var out []Symbol
	for _, s := range t {
		if module != "" && !m.Match(cmp.Or(s.Module, "vmlinux")) {
			continue
		}
		if g.Match(s.Name) {
			out = append(out, s)
		}
	}
	return out
}

// Blacklist has the names of the functions on which kprobes are forbidden.
type Blacklist map[string]bool

// Has reports whether kprobes are forbidden on a function: the kernel looks for its name and,
// if the compiler made it of another (nmi_handle.part.0), for the name before the suffix
// (within_kprobe_blacklist in kernel/kprobes.c).
func (b Blacklist) Has(name string) bool {
	if b[name] {
		return true
	}
	of, _, clone := strings.Cut(name, ".")
	return clone && b[of]
}

// ReadBlacklist reads debugfs's kprobes/blacklist below a root: lines of "START-END\tNAME". It
// returns nil if that file cannot be read.
func ReadBlacklist(root fs.FS) Blacklist {
	f, err := root.Open("sys/kernel/debug/kprobes/blacklist")
	if err != nil {
		return nil
	}
	defer f.Close()
	out := Blacklist{}
	lines := bufio.NewScanner(io.LimitReader(f, maxBytes))
	for lines.Scan() {
		if _, name, ok := strings.Cut(lines.Text(), "\t"); ok {
			out[name] = true
		}
	}
	return out
}
