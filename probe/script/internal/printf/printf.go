// Package printf parses the formats of bpftrace's printf: C's, with %r, %rx and %rh for
// buffers and %gr for allocation flags.
package printf

import (
	"slices"
	"strings"
)

// Conversion is a conversion specification of a format.
type Conversion struct {
	Start, End int    // byte offsets in the format
	Spec       string // d, s, rx …
}

// Conversions returns the conversions of a format, without %%. A % that begins none is text.
func Conversions(format string) []Conversion {
	return slices.DeleteFunc(all(format), func(c Conversion) bool { return c.Spec == "%" })
}

// all returns the conversions of a format, also %%.
func all(format string) []Conversion {
	var list []Conversion
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		j := i + 1
		for _, flag := range "-+ #0" { // each at most once, in this order
			if j < len(format) && format[j] == byte(flag) {
				j++
			}
		}
		j = width(format, j)
		if j+1 < len(format) && format[j] == '.' {
			if after := width(format, j+1); after > j+1 {
				j = after
			}
		}
		for j < len(format) && strings.IndexByte("hlLjzt", format[j]) >= 0 {
			j++
		}
		spec := specifier(format[j:])
		if spec == "" {
			continue
		}
		end := j + len(spec)
		list = append(list, Conversion{i, end, spec})
		i = end - 1
	}
	return list
}

func width(s string, i int) int {
	if i < len(s) && s[i] == '*' {
		return i + 1
	}
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// specifier returns the specifier at the beginning of a text, or "".
func specifier(s string) string {
	for _, two := range []string{"gr", "rh", "rx"} {
		if strings.HasPrefix(s, two) {
			return two
		}
	}
	if s != "" && strings.IndexByte("diouxXeEfFGaAcspn%gr", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}
