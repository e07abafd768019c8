package action

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// lookupType finds a struct, union, enum, typedef or integer by C name, with or
// without the keyword; a ___flavour suffix is ignored, as CO-RE does.
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

// near lists the names closest to a wrong one, as ": did you mean x, y?".
func near(name string, names []string) string {
	type scored struct {
		name string
		d    int
	}
	var list []scored
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			continue
		}
		seen[n] = true
		d := distance(strings.ToLower(name), strings.ToLower(n))
		if strings.Contains(n, name) {
			d = min(d, 1)
		}
		if d <= 1+len(name)/3 {
			list = append(list, scored{n, d})
		}
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].d != list[j].d {
			return list[i].d < list[j].d
		}
		return list[i].name < list[j].name
	})
	if len(list) == 0 {
		return ""
	}
	var out []string
	for _, s := range list[:min(3, len(list))] {
		out = append(out, s.name)
	}
	return ": did you mean " + strings.Join(out, ", ") + "?"
}

// distance is the edit distance of two names, cut to their first 64 bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

func nearBuiltin(name string) string {
	names := make([]string, 0, len(builtins))
	for n := range builtins {
		names = append(names, n)
	}
	return near(name, names)
}

func nearMember(members []btf.Member, name string) string {
	return near(name, memberNames(members, nil, 0))
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
		switch t := underlying(m.Type).(type) {
		case *btf.Struct:
			dst = memberNames(t.Members, dst, depth+1)
		case *btf.Union:
			dst = memberNames(t.Members, dst, depth+1)
		}
	}
	return dst
}
