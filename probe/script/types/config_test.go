package types_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

// configured reads a script and its configuration.
func configured(t *testing.T, script string) (*syntax.File, *types.Config, syntax.Errors, error) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(script), nil)
	if err != nil {
		t.Fatal(syntax.Text(err))
	}
	c, w, err := types.Configure(f)
	return f, c, w, err
}

// TestConfigure: values of all kinds, by all their names.
func TestConfigure(t *testing.T) {
	_, c, w, err := configured(t, `config = {
		BPFTRACE_STACK_MODE = perf; max_strlen = 2_000; log_size = "0x10"; cpp_demangle = false;
		lazy_symbolication = "Off"; show_debug_info = 7; print_maps_on_exit = "YES";
		cache_user_symbols = PER_PROGRAM; license = "Dual BSD/GPL"; missing_probes = WARN;
		unstable_typeinfo = 3; unstable_tseries = "off"; str_trunc_trailer = 5; map_keys_max = 12;
		symbol_source = anything
	}
	begin { }`)
	if err != nil {
		t.Fatal(syntax.Text(err))
	}
	want := *types.DefaultConfig()
	want.StackMode, want.MaxStrlen, want.LogSize, want.CPPDemangle = "perf", 2000, 16, false
	want.LazySymbolication, want.CacheUserSymbols = false, "per_program"
	want.License, want.MissingProbes = "Dual BSD/GPL", "warn"
	want.UnstableTypeinfo, want.UnstableTSeries = "enable", "error"
	want.StrTruncTrailer, want.MaxMapKeys = "5", 12
	if *c != want {
		t.Errorf("configuration is\n%+v\nwant\n%+v", *c, want)
	}
	for _, text := range []string{
		"map_keys_max has been renamed, please use max_map_keys",
		"symbol_source is deprecated and has no effect",
	} {
		if !strings.Contains(w.String(), text) {
			t.Errorf("warnings are\n%s\nwant %q", w, text)
		}
	}
}

// TestConfigErrors: what is refused, and in which words.
func TestConfigErrors(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"unknown", `config = { nosuch = 1 } begin { }`, "nosuch: not a known configuration option"},
		{"environment", `config = { BTF = 1 } begin { }`, "BTF: can only be set as an environment variable"},
		{"number", `config = { max_probes = many } begin { }`, "max_probes: expecting a number, got many"},
		{"badNumber", `config = { max_probes = "09" } begin { }`, "max_probes: expecting a number, got 09"},
		{"flag", `config = { use_blazesym = maybe } begin { }`, "use_blazesym: Invalid bool value"},
		{"mode", `config = { stack_mode = PERF } begin { }`, "stack_mode: Invalid value for stack_mode"},
		{"modeNumber", `config = { stack_mode = 1 } begin { }`, "stack_mode: Invalid value for stack_mode"},
		{"missing", `config = { missing_probes = 0 } begin { }`, "Invalid value for missing_probes"},
		{"license", `config = { license = MIT } begin { }`, "Invalid value for license. Found: MIT. Valid"},
		{"cache", `config = { cache_user_symbols = some } begin { }`, "Invalid value for cache_user_symbols"},
		{"renamed", `config = { strlen = x } begin { }`, "max_strlen: expecting a number, got x"},
		{"unstable", `config = { unstable_tseries = x } begin { }`, "Invalid value for unstable config"},
		{"typeinfo", `begin { print(typeinfo(1)); }`, "typeinfo feature is not enabled by default"},
		{"import", `begin { import "a.h"; }`, "Import statements that are not at the top level"},
		{"deleted", `begin { print(sarg0); }`, `HINT: Use *(reg("sp") + <stack_offset>) instead.`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, _, err := configured(t, test.script)
			if err == nil || !strings.Contains(syntax.Text(err), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestUnstable: what is warned of is warned of once, and without a place.
func TestUnstable(t *testing.T) {
	_, _, w, err := configured(t, `begin { @ = tseries(1, 1s, 2); @b = tseries(1, 1s, 2); while (1) { break; } }`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "WARNING: Script is using an unstable feature: tseries. To prevent this warning " +
		"you must explicitly enable it in the config e.g. unstable_tseries=enable\n"
	if len(w) != 2 || w[0].String() != want || !strings.Contains(w[1].String(), "While loops are deprecated") {
		t.Errorf("warnings are\n%s", w)
	}
}

// TestConfigTypes: what a configuration makes of types.
func TestConfigTypes(t *testing.T) {
	f, c, _, err := configured(t, `config = { max_strlen = 40; stack_mode = raw } begin { @s = str(pid); @k = kstack; }`)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := types.Check(f, &types.Options{Config: c})
	if err != nil {
		t.Fatal(syntax.Text(err))
	}
	if _, v := p.Map("@s"); v.String() != "string[40]" {
		t.Errorf("@s is %v", v)
	}
	if _, v := p.Map("@k"); !strings.Contains(v.String(), "kstack_raw") {
		t.Errorf("@k is %v", v)
	}
}

// TestPortable: what bpftrace does not compile ahead of time.
func TestPortable(t *testing.T) {
	for script, want := range map[string]string{
		`begin { print($1); }`:               "positional parameters",
		`begin { print(curtask); }`:          "accessing `curtask`",
		`begin { print(kaddr("a")); }`:       "kaddr()",
		`begin { print((int64)pid); }`:       "struct casts",
		`begin { print(cgroupid("/a")); }`:   "cgroupid()",
		`begin { @ = count(); print(pid); }`: "",
	} {
		f, _, _, err := configured(t, script)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := types.Portable(f); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("%s: error is %q, want %q", script, got, want)
		}
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
			f, c, _, err := configured(t, test.script)
			if err == nil {
				err = attach.Parse(f, nil)
			}
			if err == nil {
				_, err = types.Check(f, &types.Options{Config: c})
			}
			if text := ""; err != nil {
				text = syntax.Text(err)
				if test.want == "" || !strings.Contains(text, test.want) {
					t.Errorf("error is\n%s\nwant %q", text, test.want)
				}
			} else if test.want != "" {
				t.Errorf("accepted, want %q", test.want)
			}
		})
	}
}
