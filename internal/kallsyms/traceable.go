package kallsyms

import (
	"bufio"
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

// Without returns the list without the functions of the given names.
func (t Traceable) Without(names map[string]bool) Traceable {
	if len(names) == 0 {
		return t
	}
	out := make(Traceable, 0, len(t))
	for _, s := range t {
		if !names[s.Name] {
			out = append(out, s)
		}
	}
	return out
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

// Match returns the functions that match patterns for module and name. The slice must not be
// changed.
func (t Traceable) Match(module, pattern string) []Symbol {
	if module == "" && pattern == "*" {
		return t
	}
	g := glob.Compile(pattern)
	m := glob.Compile(module)
	var out []Symbol
	for _, s := range t {
		if module != "" && !m.Match(s.Module) && (module != "vmlinux" || s.Module != "") {
			continue
		}
		if g.Match(s.Name) {
			out = append(out, s)
		}
	}
	return out
}

// Blacklist reads the functions on which kprobes are forbidden, from debugfs's
// kprobes/blacklist below a root: lines of "START-END\tNAME". It returns nil if that file
// cannot be read.
func Blacklist(root fs.FS) map[string]bool {
	f, err := root.Open("sys/kernel/debug/kprobes/blacklist")
	if err != nil {
		return nil
	}
	defer f.Close()
	out := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(f, maxBytes))
	for lines.Scan() {
		if _, name, ok := strings.Cut(lines.Text(), "\t"); ok {
			out[name] = true
		}
	}
	return out
}
