package golden

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPart(t *testing.T) {
	for _, c := range []struct {
		got, want string
		line      int
		g, w      string
	}{
		{"", "", 0, "", ""},
		{"a\nb\n", "a\nb\n", 0, "", ""},
		{"a\nb\n", "a\nc\n", 2, "b", "c"},
		{"a\n", "a", 1, "a", "a"},
		{"a\nb", "a", 1, "a", "a"},
		{"a", "", 1, "a", ""},
	} {
		if line, g, w := part(c.got, c.want); line != c.line || g != c.g || w != c.w {
			t.Errorf("%q, %q: %d %q %q", c.got, c.want, line, g, w)
		}
	}
}
