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
	// Ret is nil for a function that returns nothing, and for one of Go that
	// returns several values.
	Ret     btf.Type
	Results []btf.FuncParam // Go's, in order
	// how many more parts of values may be looked at, of all of a file's functions
	steps *int
}

// userDWARF reads a file's DWARF, which lives no longer than the file. What is decoded, and
// made of it, has a bound: a stranger may have written it. Of libc, whose debug file is
// compressed to 4 MB, all functions with their types take 32 MB.
func userDWARF(f *elffile.File) (*dwarf.Data, error) {
	return dwarf.New(f, nil, max(40<<20, 5*f.Stored()))
}

// FloatWords counts the eight-byte words of a value that hold floating point
// numbers only, and so are passed in registers that probes do not see.
func (sig *Signature) FloatWords(t btf.Type) int {
	var kinds [2]byte // of each word: 1 float, 2 anything else
	if !sig.classify(t, 0, 0, &kinds) {
		return 0
	}
	return bytes.Count(kinds[:], []byte{1})
}

// Step reports whether a part of a value may be looked at: types that have nothing but
// types that have nothing would take forever.
func (sig *Signature) Step(depth int) bool {
	*sig.steps--
	return depth <= 16 && *sig.steps >= 0
}

// classify marks the words that a value covers; it is false for values of more
// than two words.
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
