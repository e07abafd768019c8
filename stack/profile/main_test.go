package profile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func readFolded(t testing.TB, name string) *Folded {
	t.Helper()
	r, err := os.Open(filepath.Join("testdata", "folded", name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := ParseFolded(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMain(m *testing.M) { testenv.Main(m) }
