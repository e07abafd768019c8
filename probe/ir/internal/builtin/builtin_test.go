package builtin_test

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestRows(t *testing.T) {
	rows := builtin.Rows()
	for i, r := range rows {
		if i > 0 && rows[i-1].Name >= r.Name {
			t.Errorf("%q comes after %q", r.Name, rows[i-1].Name)
		}
		if r.Name == "" || r.Doc == "" {
			t.Errorf("%+v", r)
		}
		if r.Part != builtin.Whole && r.Helper == 0 {
			t.Errorf("%s: a part of nothing", r.Name)
		}
		if got := builtin.Named(r.Name); got.Name != r.Name {
			t.Errorf("Named(%q) is %q", r.Name, got.Name)
		}
	}
	if got := builtin.Named("pi"); got.Name != "" {
		t.Errorf("%+v", got)
	}
}
