package spelling

import "strconv"

// Quote writes a component so that a scan reads it back: plain where
// nothing in it could be taken for syntax.
func Quote(t string) string {
	if Plain(t, false) {
		return t
	}
	return strconv.Quote(t)
}

// Plain tells whether t can stand unquoted. Colons are allowed only in the
// last part of a demangled name.
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

// ModuleSymbol is "[MODULE:]SYMBOL".
func ModuleSymbol(module, symbol string) string {
	if module == "" {
		return QuoteName(symbol)
	}
	return Quote(module) + ":" + QuoteName(symbol)
}

// QuoteName quotes what would be read as an address.
func QuoteName(t string) string {
	if t != "" && t[0] >= '0' && t[0] <= '9' {
		return strconv.Quote(t)
	}
	return Quote(t)
}

// PlusOffset is "+N", "" for 0.
func PlusOffset(n uint64) string {
	if n == 0 {
		return ""
	}
	return "+" + strconv.FormatUint(n, 10)
}
