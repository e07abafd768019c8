package usercode

import (
	"bytes"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/internal/elffile"
)

// Signature is a user function's type, from DWARF.
type Signature struct {
	Params []btf.FuncParam
	// Ret is nil for a function that returns nothing, and for a Go function that returns
	// several values.
	Ret     btf.Type
	Results []btf.FuncParam // of Go functions, in order
	// steps is the number of parts of values that may still be examined, for all functions of
	// a file.
	steps *int
}

// userDWARF reads a file's DWARF, which is valid as long as the file. What is decoded from it
// is bounded, because the file may be malicious. All functions of libc with their types take
// 32 MB; its debug file is compressed to 4 MB.
func userDWARF(f *elffile.File) (*dwarf.Data, error) {
	return dwarf.New(f, nil, max(40<<20, 5*f.Stored()))
}

// FloatWords returns the number of eight-byte words of a value that contain only
// floating-point numbers. They are passed in registers that probes do not see.
func (sig *Signature) FloatWords(t btf.Type) int {
	var kinds [2]byte // for each word: 1 float, 2 anything else
	if !sig.classify(t, 0, 0, &kinds) {
		return 0
	}
	return bytes.Count(kinds[:], []byte{1})
}

// Step reports whether another part of a value may be examined. Without a bound, types nested
// in types without any data would take exponential time.
func (sig *Signature) Step(depth int) bool {
	*sig.steps--
	return depth <= 16 && *sig.steps >= 0
}

// classify marks the words that a value covers. It returns false for values of more than two
// words.
func (sig *Signature) classify(t btf.Type, offset uint32, depth int, kinds *[2]byte) bool {
	if !sig.Step(depth) {
		return false
	}
	members := func(list []btf.Member) bool {
		return !slices.ContainsFunc(list, func(m btf.Member) bool {
			return !sig.classify(m.Type, offset+m.Offset.Bytes(), depth+1, kinds)
		})
	}
	u := btf.UnderlyingType(t)
	switch v := u.(type) {
	case *btf.Struct:
		return members(v.Members)
	case *btf.Union:
		return members(v.Members)
	case *btf.Array:
		size, err := btf.Sizeof(v.Type)
		if err != nil || v.Nelems > 16 {
			return false
		}
		for i := range v.Nelems {
			if !sig.classify(v.Type, offset+i*uint32(size), depth+1, kinds) {
				return false
			}
		}
		return true
	}
	if offset/8 >= 2 {
		return false
	}
	kind := byte(2)
	if _, ok := u.(*btf.Float); ok {
		kind = 1
	}
	if kinds[offset/8] != 2 {
		kinds[offset/8] = kind
	}
	return true
}
