package symbol

import (
	"math/bits"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// legacyHash is the length of the last part of a legacy Rust name and of its end: "17h", 16
// hexadecimal digits, "E".
const legacyHash = 20

// plainLegacy rewrites a legacy Rust name ("_ZN", parts behind their lengths, a hash, "E") so
// that the demangler reads it as rustc means it, and returns other names unchanged. The
// demangler takes any underscore in front of a part for a separator, and handles no escapes
// except those of ASCII.
func plainLegacy(name string) string {
	end := len(name)
	if i := strings.LastIndex(name, "E."); i > 0 {
		end = i + 1
	}
	hash := end - legacyHash
	if hash <= 3 || !strings.HasPrefix(name, "_ZN") || !isLegacyHash(name[hash:end]) {
		return name
	}
	plain := []byte("_ZN")
	for rest := name[3:hash]; rest != ""; {
		part := strings.TrimLeft(rest, "0123456789")
		n, err := strconv.Atoi(rest[:len(rest)-len(part)])
		if err != nil || n == 0 || n > len(part) {
			return name
		}
		s := plainPart(part[:n])
		plain = append(strconv.AppendInt(plain, int64(len(s)), 10), s...)
		rest = part[n:]
	}
	return string(plain) + name[hash:]
}

// isLegacyHash reports whether the demangler takes s for a hash: C++ has such names, too.
func isLegacyHash(s string) bool {
	seen := uint16(0)
	for _, c := range []byte(s[3 : legacyHash-1]) {
		i := strings.IndexByte("0123456789abcdef", c)
		if i < 0 {
			return false
		}
		seen |= 1 << i
	}
	return strings.HasPrefix(s, "17h") && strings.HasSuffix(s, "E") && bits.OnesCount16(seen) >= 5
}

// plainPart adds an underscore to a part that begins with one, because the demangler removes
// one, unless rustc put that underscore before an escape, since the part would otherwise begin
// with a dollar sign. It replaces escapes of letters beyond ASCII, "$u3b1$", by the letters.
func plainPart(s string) string {
	var b strings.Builder
	if strings.HasPrefix(s, "_") && !strings.HasPrefix(s, "_$") {
		b.WriteByte('_')
	}
	for {
		before, rest, _ := strings.Cut(s, "$")
		escape, after, ok := strings.Cut(rest, "$")
		b.WriteString(before)
		if !ok {
			b.WriteString(s[len(before):])
			return b.String()
		}
		if r, ok := escapedRune(escape); ok {
			b.WriteRune(r)
		} else {
			b.WriteString("$" + escape + "$")
		}
		s = after
	}
}

// escapedRune returns the letter beyond ASCII that an escape stands for.
func escapedRune(escape string) (r rune, ok bool) {
	digits, ok := strings.CutPrefix(escape, "u")
	n, err := strconv.ParseUint(digits, 16, 31)
	r = rune(n)
	return r, ok && err == nil && digits == strings.ToLower(digits) &&
		r >= utf8.RuneSelf && utf8.ValidRune(r) && !unicode.IsControl(r)
}
