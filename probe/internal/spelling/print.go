package spelling

import "strconv"

// Quote returns a component as Scan reads it: without quotes unless something in it is syntax.
func Quote(t string) string {
	if Plain(t, false) {
		return t
	}
	return strconv.Quote(t)
}

// Plain reports whether t can be written without quotes. Colons are allowed only in the last
// part of a demangled name.
func Plain(t string, colons bool) bool {
	for i := 0; i < len(t); i++ {
		c := t[i]
		switch {
		case c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == '+' || c == '\\':
			return false
		case c == ':' && !colons:
			return false
		}
	}
	return true
}

// ModuleSymbol returns "[MODULE:]SYMBOL".
func ModuleSymbol(module, symbol string) string {
	if module == "" {
		return QuoteName(symbol)
	}
	return Quote(module) + ":" + QuoteName(symbol)
}

// QuoteName is Quote, but also quotes names that would be read as an address.
func QuoteName(t string) string {
	if t != "" && t[0] >= '0' && t[0] <= '9' {
		return strconv.Quote(t)
	}
	return Quote(t)
}

// PlusOffset returns "+N", or "" for 0.
func PlusOffset(n uint64) string {
	if n == 0 {
		return ""
	}
	return "+" + strconv.FormatUint(n, 10)
}
