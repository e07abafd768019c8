package check

import (
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir/internal/ctype"
)

// StructOf is the struct or union that t is, nil if it is none.
func StructOf(t btf.Type) btf.Type {
	if t == nil {
		return nil
	}
	switch u := ctype.Underlying(t).(type) {
	case *btf.Struct, *btf.Union:
		return u
	}
	return nil
}
