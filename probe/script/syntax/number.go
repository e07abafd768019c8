package syntax

import (
	"fmt"
	"math"
	"strings"
)

// unit is a suffix of a number, the largest number it allows and its factor.
type unit struct {
	suffix      string
	most, worth uint64
}

// units returns bpftrace's suffixes. Those of times convert to nanoseconds. A number without a
// suffix has 64 bits.
func units() [13]unit {
	const all = math.MaxUint64
	return [...]unit{
		{"", all, 1},
		{"u", math.MaxUint32, 1},
		{"ul", all, 1},
		{"ull", all, 1},
		{"l", math.MaxInt64, 1},
		{"ll", math.MaxInt64, 1},
		{"ns", all, 1},
		{"us", all, 1e3},
		{"ms", all, 1e6},
		{"s", all, 1e9},
		{"m", all, 60e9},
		{"h", all, 3600e9},
		{"d", all, 86400e9},
	}
}

// ParseInteger parses a number as it is written in scripts: decimal, 0x, 0b or octal, with
// underscores, an exponent (1e6) and a suffix (5ms). Units of time are converted to
// nanoseconds. The errors are bpftrace's.
func ParseInteger(text string) (uint64, error) {
	n := strings.ReplaceAll(text, "_", "")
	if len(n) >= 2 && n[0] == '0' {
		switch c := n[1]; {
		case c == 'x' || c == 'X':
			return parseDigits(n[2:], n[2:], 16)
		case c == 'b' || c == 'B':
			return parseDigits(n[2:], n[2:], 2)
		case c >= '0' && c <= '7':
			return parseDigits(n[1:], n[1:], 8)
		case c == '8' || c == '9':
			return parseDigits(n, text, 8) // the digit after the 0 is not octal
		}
	}
	return parseDigits(n, text, 10)
}

// parseDigits parses digits, exponent and suffix. text is the number that errors show.
func parseDigits(n, text string, base int) (uint64, error) {
	value, rest, ok := leadingDigits(n, base)
	if len(rest) == len(n) {
		return 0, fmt.Errorf("invalid integer: %s", text)
	}
	if !ok {
		return 0, overflow(math.MaxUint64, text)
	}
	if len(rest) > 1 && (rest[0] == 'e' || rest[0] == 'E') && rest[1] >= '1' && rest[1] <= '9' {
		if value == 0 || value >= 10 {
			return 0, fmt.Errorf("coefficient part of scientific literal must be 1-9: %s", text)
		}
		var exp uint64
		exp, rest, ok = leadingDigits(rest[1:], 10)
		for ; ok && exp > 0; exp-- {
			ok = value <= math.MaxUint64/10
			value *= 10
		}
		if !ok {
			return 0, overflow(math.MaxUint64, text)
		}
	}
	for _, u := range units() {
		if u.suffix == rest {
			if value > u.most/u.worth {
				return 0, overflow(u.most, text)
			}
			return value * u.worth, nil
		}
	}
	return 0, fmt.Errorf("invalid trailing bytes: %s", text)
}

func overflow(most uint64, text string) error {
	return fmt.Errorf("overflow error, maximum value is %d: %s", most, text)
}

// leadingDigits parses the digits at the start of n, and reports whether the value fits in 64
// bits.
func leadingDigits(n string, base int) (value uint64, rest string, ok bool) {
	ok = true
	for len(n) > 0 && hexDigit(n[0]) && hexValue(n[0]) < base {
		d := uint64(hexValue(n[0]))
		ok = ok && value <= (math.MaxUint64-d)/uint64(base)
		value = value*uint64(base) + d
		n = n[1:]
	}
	return value, n, ok
}
