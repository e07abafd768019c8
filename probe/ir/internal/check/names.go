package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe/ir"
)

// lookupType looks up a struct, union, enum, typedef or integer by its C name, with or
// without the keyword. As in CO-RE a ___flavour suffix is ignored.
func lookupType(spec *btf.Spec, name string) (btf.Type, error) {
	name = strings.TrimSpace(name)
	plain := name
	for _, k := range []string{"struct ", "union ", "enum "} {
		plain = strings.TrimPrefix(plain, k)
	}
	if i := strings.Index(plain, "___"); i > 0 {
		plain = plain[:i]
	}
	types, err := spec.AnyTypesByName(plain)
	if err != nil {
		if errors.Is(err, btf.ErrNotFound) {
			return nil, fmt.Errorf("the kernel's BTF has no type %q", name)
		}
		return nil, err
	}
	var best btf.Type
	for _, t := range types {
		switch t.(type) {
		case *btf.Struct, *btf.Union, *btf.Enum:
			return t, nil
		case *btf.Typedef, *btf.Int:
			best = t
		}
	}
	if best == nil {
		return nil, fmt.Errorf("the kernel's BTF has no type %q", name)
	}
	return best, nil
}

func nearBuiltin(name string) string {
	var names []string
	for _, b := range ir.Builtins() {
		names = append(names, b.Name)
	}
	return near.Hint(name, names)
}

func nearMember(members []btf.Member, name string) string {
	return near.Hint(name, memberNames(members, nil, 0))
}

func memberNames(members []btf.Member, dst []string, depth int) []string {
	for _, m := range members {
		if m.Name != "" {
			dst = append(dst, m.Name)
			continue
		}
		if depth > 16 {
			continue
		}
		dst = memberNames(kernel.Members(m.Type), dst, depth+1)
	}
	return dst
}
