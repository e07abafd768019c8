package glob_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/glob"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "x", true},
		{"a*", "abc", true},
		{"a*c", "abc", true},
		{"a*c", "abd", false},
		{"*b*", "abc", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[!a-c]x", "dx", true},
		{"[abc", "[abc", true},
		{"a[b", "a[b", true},
		{"", "", true},
		{"", "a", false},
		{"tcp_*msg", "tcp_sendmsg", true},
		{"**a", "bba", true},
		{"a*b*c", "aXbXbXc", true},
		{"a", "ab", false},
		{"*[]", "x[]", true},
	} {
		g := glob.Compile(c.pattern)
		if got := g.Match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

// FuzzGlob checks that a pattern without brackets matches like path.Match, and that every name
// without wildcards matches itself.
func FuzzGlob(f *testing.F) {
	f.Add("a*c", "abc")
	f.Add("[a-", "[a-")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		g := glob.Compile(pattern)
		got := g.Match(name)
		if strings.ContainsAny(pattern, `[]\`) || strings.ContainsAny(name, "/") || strings.ContainsFunc(pattern+name, func(r rune) bool { return r >= 0x80 }) {
			return
		}
		want, err := filepath.Match(pattern, name)
		if err == nil && want != got {
			t.Fatalf("%q matches %q: %v, filepath.Match says %v", pattern, name, got, want)
		}
	})
}
