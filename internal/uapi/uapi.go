// Package uapi contains constants of Linux's headers for user programs that are macros, and so
// are not in BTF: errors, signals, socket families, flags of system calls.
//
//	flag, ok := uapi.Lookup("arm64", "O_DIRECT") // 65536; on amd64 it is 16384
//
// There are about 2,700, from Linux 6.1's headers and golang.org/x/sys, for amd64, arm64,
// riscv64, loong64 and ppc64le. Some are enumerators too, such as IPPROTO_TCP and the states
// of TCP, so that users need not read BTF for them. Numbers of system calls are not included,
// and neither are constants that change with each kernel, such as BPF_MAP_TYPE_… and
// CAP_LAST_CAP.
package uapi

import (
	_ "embed" // of the table
	"iter"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/near"
)

//go:generate go run ./generate

// table has a line for each name, sorted: its value and, after commas, the values of
// architectures that have another one, or - if they have none. It is searched directly,
// without an index that would have to be built at start.
//
//go:embed table.txt
var table string

// Arches returns the architectures that Lookup supports, in GOARCH's spelling.
func Arches() []string { return []string{"amd64", "arm64", "loong64", "ppc64le", "riscv64"} }

// Lookup returns the value of a name on an architecture, in GOARCH's spelling. Unsigned values
// of 64 bits are returned in two's complement: RLIM_INFINITY is -1. It takes at most a
// microsecond, and does not allocate.
func Lookup(arch, name string) (value int64, ok bool) {
	line, ok := find(name)
	if !ok || !known(arch) {
		return 0, false
	}
	text, others, _ := strings.Cut(line, ",")
	for others != "" {
		var other string
		other, others, _ = strings.Cut(others, ",")
		if of, own, _ := strings.Cut(other, ":"); of == arch {
			text = own
		}
	}
	if text == "-" {
		return 0, false
	}
	value, err := strconv.ParseInt(text, 10, 64)
	return value, err == nil
}

func known(arch string) bool {
	switch arch {
	case "amd64", "arm64", "loong64", "ppc64le", "riscv64":
		return true
	}
	return false
}

// find returns the part of a name's line after the equals sign.
func find(name string) (string, bool) {
	low, high := 0, len(table) // offsets of line starts
	for low < high {
		begin := (low + high) / 2
		for begin > low && table[begin-1] != '\n' {
			begin--
		}
		line := table[begin:]
		line = line[:strings.IndexByte(line, '\n')]
		have, values, _ := strings.Cut(line, "=")
		switch strings.Compare(have, name) {
		case 0:
			return values, true
		case -1:
			low = begin + len(line) + 1
		default:
			high = begin
		}
	}
	return "", false
}

// Names returns an iterator over all names, sorted.
func Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(table) {
			if name, _, _ := strings.Cut(line, "="); !yield(name) {
				return
			}
		}
	}
}

// Near returns `; did you mean "x" or "y"?` with names that are similar to one that does not
// exist, for the end of an error, or "".
func Near(name string) string {
	s := near.New(name)
	for n := range Names() {
		s.Add(n)
	}
	return s.Hint()
}
