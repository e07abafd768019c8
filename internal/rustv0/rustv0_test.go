package rustv0

import (
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"_RNvC6_123foo3bar", ""},
		{"main", ""},
		{"_Rbroken", ""},
		{"_RNCNvC1a1b0", ""},
		// A static in a closure, a closure in a closure, and references behind them.
		{"_RNvNCNvC3std4hook011FIRST_PANIC", "_RNvNCNvC3std4hook0_11FIRST_PANIC"},
		{"_RNCNCNvC3std2rt00B4_", "_RNCNCNvC3std2rt0_0B4_"},
		{"_RINvNCNvC3std2rt03minNtB6_1aNtB8_1bE", "_RINvNCNvC3std2rt0_3minNtB6_1aNtB8_1bE"},
		{"_RINvNCNvC1a1b03minTlNtB4_1cEBg_E", "_RINvNCNvC1a1b0_3minTlNtB4_1cEBh_E"},
		{"_RINvC1a1bNcNtC1c4None0NtB9_1dE", "_RINvC1a1bNtC1c4NoneNtB7_1dE"},
	} {
		if c.want == "" {
			c.want = c.in
		}
		if got := Plain(c.in); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
	if deep := "_R" + strings.Repeat("NC", 100000); Plain(deep) != deep {
		t.Error("a name without an end was changed")
	}
}

// FuzzPlain checks that a second Plain changes nothing.
func FuzzPlain(f *testing.F) {
	f.Add("_RNvNCNvC3std4hook011FIRST_PANIC")
	f.Add("_RINvNCNvC1a1b03minTlNtB4_1cEB9_E")
	f.Add("_RINvC1a1bKj0_DG_NtC1c1dp1eAhKj10_EL_FUKCB_E")
	f.Fuzz(func(t *testing.T, name string) {
		one := Plain(name)
		if two := Plain(one); two != one {
			t.Fatalf("%q becomes %q and then %q", name, one, two)
		}
	})
}
