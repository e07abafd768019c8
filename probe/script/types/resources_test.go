package types_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

// configured reads a script and its configuration.
func configured(t *testing.T, script string) (*syntax.File, *config.Config) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(script), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	c, _, err := config.Read(f, nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	return f, c
}

// TestConfigTypes: what a configuration makes of types.
func TestConfigTypes(t *testing.T) {
	f, c := configured(t, `config = { max_strlen = 40; stack_mode = raw } begin { @s = str(pid); @k = kstack; }`)
	p, err := types.Check(f, &types.Options{Config: c})
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	if _, v := p.Map("@s"); v.String() != "string[40]" {
		t.Errorf("@s is %v", v)
	}
	if _, v := p.Map("@k"); !strings.Contains(v.String(), "kstack_raw") {
		t.Errorf("@k is %v", v)
	}
}

// TestResources: one map has histograms of one shape.
func TestResources(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"hist", `begin { @ = hist(1, 1); @ = hist(2, 2); }`, "Different bits in a single hist unsupported"},
		{"lhist", `begin { @[1] = lhist(1, 0, 10, 1); @[2] = lhist(1, 0, 10, 2); }`, "Different lhist bounds in a single map unsupported"},
		{"tseries", `begin { @ = tseries(1, 1s, 2); @ = tseries(1, 1s, 3); }`, "Different tseries bounds in a single map unsupported"},
		{"same", `begin { @ = hist(1, 1); @ = hist(2, 1); @b = hist(1, 3); }`, ""},
		{"return", `begin { for ($i : 0..3) { if (pid) { return 1; } return; } }`, "Return value used in loop is inconsistent"},
		{"returns", `begin { for ($i : 0..3) { if (pid) { return 1; } return 2; } }`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, c := configured(t, test.script)
			_, err := types.Check(f, &types.Options{Config: c})
			if text := ""; err != nil {
				text = syntax.ErrorText(err)
				if test.want == "" || !strings.Contains(text, test.want) {
					t.Errorf("error is\n%s\nwant %q", text, test.want)
				}
			} else if test.want != "" {
				t.Errorf("accepted, want %q", test.want)
			}
		})
	}
}
