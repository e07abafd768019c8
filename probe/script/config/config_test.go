package config_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/syntax"
)

// configured parses a script and reads its configuration.
func configured(t *testing.T, script string) (*syntax.File, *config.Config, syntax.Errors, error) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(script), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	c, w, err := config.Read(f, nil)
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
		t.Fatal(syntax.ErrorText(err))
	}
	want := *config.Default()
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

// TestConfigErrors: invalid options, and their messages.
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
		{"license", `config = { license = MIT } begin { }`, "Invalid value for license. Found: MIT. Valid values: Dual MIT/GPL, Dual BSD/GPL, " +
			"Dual MPL/GPL, GPL and additional rights, GPL v2, GPL"},
		{"cache", `config = { cache_user_symbols = some } begin { }`, "Invalid value for cache_user_symbols"},
		{"renamed", `config = { strlen = x } begin { }`, "max_strlen: expecting a number, got x"},
		{"unstable", `config = { unstable_tseries = x } begin { }`, "Invalid value for unstable config"},
		{"typeinfo", `begin { print(typeinfo(1)); }`, "typeinfo feature is not enabled by default"},
		{"import", `begin { import "a.h"; }`, "Import statements that are not at the top level"},
		{"deleted", `begin { print(sarg0); }`, `HINT: Use *(reg("sp") + <stack_offset>) instead.`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, _, err := configured(t, test.script)
			if err == nil || !strings.Contains(syntax.ErrorText(err), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestEnvironment: variables precede the config block, also for what the script may use, and a
// wrong value is an error without a place.
func TestEnvironment(t *testing.T) {
	f, err := syntax.Parse("stdin", []byte(`config = { max_probes = 5; max_strlen = 7 }
		begin { print(typeinfo(1)); }`), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	read := func(vars map[string]string) (*config.Config, error) {
		c, _, err := config.Read(f, &config.Options{Environ: func(name string) (string, bool) {
			v, ok := vars[name]
			return v, ok
		}})
		return c, err
	}
	c, err := read(map[string]string{
		"BPFTRACE_MAX_PROBES": "0x10", "BPFTRACE_MAX_BPF_PROGS": "2_000", "BPFTRACE_NOSUCH": "1",
		"BPFTRACE_UNSTABLE_TYPEINFO": "enable", "max_strlen": "9", "BPFTRACE_STACK_MODE": "raw",
	})
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	if c.MaxProbes != 16 || c.MaxBPFProgs != 2000 || c.MaxStrlen != 7 || c.StackMode != "raw" {
		t.Errorf("configuration is %+v", c)
	}
	_, err = read(map[string]string{
		"BPFTRACE_MAX_PROBES": "many", "BPFTRACE_UNSTABLE_TYPEINFO": "1",
	})
	if err == nil || syntax.ErrorText(err) != "ERROR: max_probes: expecting a number, got many\n" {
		t.Errorf("error is %v", err)
	}
}

// TestUnstable: each unstable feature is warned of once, and without a place.
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

// TestPortable: features that bpftrace does not compile ahead of time.
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
		if err := config.Portable(f); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("%s: error is %q, want %q", script, got, want)
		}
	}
}
