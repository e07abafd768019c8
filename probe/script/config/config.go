package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// mostErrors is the number of errors that are kept.
const mostErrors = 100

// Config is the configuration by a script's config block, and bpftrace's defaults for other
// options. Words are in lower case, as in the fields' comments, which give the defaults, or
// the possible words with the default first.
type Config struct {
	// CacheUserSymbols is per_pid, per_program, none, or "" (the default) for the best choice
	// on the machine.
	CacheUserSymbols  string
	CPPDemangle       bool   // true by default
	LazySymbolication bool   // true by default
	License           string // GPL
	LogSize           uint64 // 1,000,000
	MaxBPFProgs       uint64 // 1,024: the programs that wildcards and the builtin probe generate
	MaxCatBytes       uint64 // 10,240
	MaxMapKeys        uint64 // 4,096
	MaxProbes         uint64 // 1,024: the probes, each match of wildcards with its own program one
	MaxStrlen         uint64 // 1,024
	OnStackLimit      uint64 // 32
	PerfRBPages       uint64 // 0: depends on the machine's memory
	StackMode         string // bpftrace, raw, perf, build_id
	StrTruncTrailer   string // ".."
	MissingProbes     string // error, warn, ignore
	PrintMapsOnExit   bool   // true by default
	UseBlazesym       bool   // true by default
	ShowDebugInfo     bool   // true by default

	// Unstable features are enabled, cause a warning, or are refused: enable, warn, error.
	UnstableImportStatement string // error
	UnstableTSeries         string // warn
	UnstableTypeinfo        string // error
	UnstableDWUstack        string // warn
}

// Default returns the configuration of a script without a config block.
func Default() *Config {
	return &Config{
		CPPDemangle: true, LazySymbolication: true, License: "GPL", LogSize: 1_000_000,
		MaxBPFProgs: 1024, MaxCatBytes: 10_240, MaxMapKeys: 4096, MaxProbes: 1024, MaxStrlen: 1024,
		OnStackLimit: 32, StackMode: "bpftrace", StrTruncTrailer: "..", MissingProbes: "error",
		PrintMapsOnExit: true, UseBlazesym: true, ShowDebugInfo: true,
		UnstableImportStatement: "error", UnstableTSeries: "warn", UnstableTypeinfo: "error",
		UnstableDWUstack: "warn",
	}
}

// Options are the options of [Read].
type Options struct {
	// Environ returns the value of an environment variable and whether it is set, as
	// os.LookupEnv does. An option's variable has its name in upper case behind BPFTRACE_, such
	// as BPFTRACE_MAX_PROBES, and precedes the config block. Nil: there are no variables.
	Environ func(name string) (value string, set bool)
}

// Read reads the config block of a script, after its imports are loaded and before its macros
// are expanded. It checks the script for unstable features that the configuration does not
// enable, and for deprecated ones. o may be nil. The error is a [syntax.Errors]. Warnings about
// a whole script have no place in it, nor have errors in environment variables.
func Read(f *syntax.File, o *Options) (c *Config, warnings syntax.Errors, err error) {
	r := &configReader{config: Default()}
	r.options = r.config.options()
	for _, d := range f.Decls {
		if b, ok := d.(*syntax.Config); ok {
			for _, v := range b.Vars {
				r.set(v)
			}
		}
	}
	if o != nil && o.Environ != nil {
		r.environment(o.Environ)
	}
	r.unstable(f)
	r.deprecated(f)
	if err := r.errs.Err(); err != nil {
		return nil, nil, err
	}
	return r.config, r.errs, nil
}

// option is an option that a config block may set: how it is parsed, and where it is stored.
type option struct {
	number *uint64
	flag   *bool
	text   *string
	words  []string // the allowed values of text
	alias  map[string]string
	exact  bool                // words are case-sensitive
	refuse func(string) string // the error for other values
}

// options returns a configuration's options by name.
func (c *Config) options() map[string]option {
	number := func(p *uint64) option { return option{number: p} }
	flag := func(p *bool) option { return option{flag: p} }
	unstable := func(p *string) option {
		return option{
			text: p, words: []string{"enable", "warn", "error"}, alias: map[string]string{
				"1": "enable", "true": "enable", "on": "enable", "yes": "enable",
				"0": "error", "false": "error", "off": "error", "no": "error",
			},
			refuse: always("Invalid value for unstable config: valid values are enable, warn, " +
				"and error."),
		}
	}
	return map[string]option{
		"cache_user_symbols": {
			text: &c.CacheUserSymbols, words: []string{"per_pid", "per_program", "none"},
			alias: map[string]string{"1": "", "0": "none"},
			refuse: always("Invalid value for cache_user_symbols: valid values are PER_PID, " +
				"PER_PROGRAM, and NONE."),
		},
		"cpp_demangle": flag(&c.CPPDemangle), "lazy_symbolication": flag(&c.LazySymbolication),
		"license":       {text: &c.License, words: licenses(), exact: true, refuse: licenseError},
		"log_size":      number(&c.LogSize),
		"max_bpf_progs": number(&c.MaxBPFProgs), "max_cat_bytes": number(&c.MaxCatBytes),
		"max_map_keys": number(&c.MaxMapKeys), "max_probes": number(&c.MaxProbes),
		"max_strlen": number(&c.MaxStrlen), "on_stack_limit": number(&c.OnStackLimit),
		"perf_rb_pages": number(&c.PerfRBPages),
		"stack_mode": {
			text: &c.StackMode, words: []string{"bpftrace", "raw", "perf", "build_id"}, exact: true,
			refuse: always("Invalid value for stack_mode: valid values are bpftrace, raw, perf, " +
				"and build_id."),
		},
		"str_trunc_trailer": {text: &c.StrTruncTrailer},
		"missing_probes": {
			text: &c.MissingProbes, words: []string{"ignore", "warn", "error"},
			refuse: always("Invalid value for missing_probes: valid values are ignore, warn, and error."),
		},
		"print_maps_on_exit": flag(&c.PrintMapsOnExit), "use_blazesym": flag(&c.UseBlazesym),
		"show_debug_info":           flag(&c.ShowDebugInfo),
		"unstable_import_statement": unstable(&c.UnstableImportStatement),
		"unstable_tseries":          unstable(&c.UnstableTSeries),
		"unstable_typeinfo":         unstable(&c.UnstableTypeinfo),
		"unstable_dw_ustack":        unstable(&c.UnstableDWUstack),
	}
}

// licenses returns the licenses with which the kernel lets programs call all helpers.
func licenses() []string {
	return []string{
		"Dual MIT/GPL", "Dual BSD/GPL", "Dual MPL/GPL", "GPL and additional rights", "GPL v2", "GPL",
	}
}

// renamed returns the new name of an option that was renamed, or "".
func renamed(name string) string {
	switch name {
	case "strlen":
		return "max_strlen"
	case "no_cpp_demangle":
		return "cpp_demangle"
	case "cat_bytes_max":
		return "max_cat_bytes"
	case "map_keys_max":
		return "max_map_keys"
	}
	return ""
}

// configReader reads a config block.
type configReader struct {
	config  *Config
	options map[string]option
	errs    syntax.Errors
}

func (r *configReader) say(n syntax.Node, s syntax.Severity, msg string) *syntax.Error {
	e := &syntax.Error{Severity: s, Msg: msg}
	if n != nil {
		e.Loc = *n.At()
	}
	if len(r.errs) < mostErrors {
		r.errs = append(r.errs, e)
	}
	return e
}

// set sets one option.
func (r *configReader) set(v *syntax.ConfigVar) {
	switch v.Name {
	case "symbol_source", "max_type_res_iterations", "unstable_addr", "unstable_import",
		"unstable_macro", "unstable_map_decl":
		r.say(v, syntax.SeverityWarning, v.Name+" is deprecated and has no effect")
		return
	}
	key := strings.TrimPrefix(strings.ToLower(v.Name), "bpftrace_")
	shown := v.Name
	if now := renamed(key); now != "" {
		key, shown = now, now
	}
	o, ok := r.options[key]
	if !ok {
		why := "not a known configuration option"
		switch key {
		case "btf", "kernel_build", "kernel_source", "vmlinux":
			why = "can only be set as an environment variable"
		}
		r.say(v, syntax.SeverityError, v.Name+": "+why)
		return
	}
	if msg := o.read(v.Value); msg != "" {
		if key != "license" {
			msg = shown + ": " + msg
		}
		r.say(v, syntax.SeverityError, msg)
	} else if shown != v.Name {
		r.say(v, syntax.SeverityWarning, v.Name+" has been renamed, please use "+shown)
	}
}

// environment sets the options that have an environment variable.
func (r *configReader) environment(lookup func(string) (string, bool)) {
	for _, key := range slices.Sorted(maps.Keys(r.options)) {
		value, ok := lookup("BPFTRACE_" + strings.ToUpper(key))
		if !ok {
			continue
		}
		if msg := r.options[key].read(&syntax.String{Value: value}); msg != "" {
			if key != "license" {
				msg = key + ": " + msg
			}
			r.say(nil, syntax.SeverityError, msg)
		}
	}
}

// read stores a value, or returns the error's message.
func (o option) read(x syntax.Expr) string {
	n, isNumber := uint64(0), false
	s := ""
	switch x := x.(type) {
	case *syntax.Integer:
		n, isNumber = x.Value, true
	case *syntax.Boolean:
		if isNumber = true; x.Value {
			n = 1
		}
	case *syntax.String:
		s = x.Value
	}
	switch {
	case o.number != nil:
		if !isNumber {
			var err error
			if n, err = syntax.ParseInteger(s); err != nil {
				return "expecting a number, got " + s
			}
		}
		*o.number = n
	case o.flag != nil:
		if !isNumber {
			return o.readFlag(s)
		}
		*o.flag = n != 0
	default:
		if isNumber {
			s = strconv.FormatUint(n, 10)
			if o.alias != nil && n > 1 {
				s = "1"
			}
		}
		return o.readText(s, isNumber)
	}
	return ""
}

func (o option) readFlag(s string) string {
	switch strings.ToLower(s) {
	case "1", "true", "on", "yes":
		*o.flag = true
	case "0", "false", "off", "no":
		*o.flag = false
	default:
		return "Invalid bool value: valid values are true, false, 1 or 0."
	}
	return ""
}

func (o option) readText(s string, isNumber bool) string {
	word := s
	if !o.exact {
		word = strings.ToLower(s)
	}
	to, alias := o.alias[word]
	switch {
	case o.words == nil:
		*o.text = s
	case alias:
		*o.text = to
	case !isNumber && slices.Contains(o.words, word):
		*o.text = word
	default:
		return o.refuse(s)
	}
	return ""
}

func licenseError(s string) string {
	return "Invalid value for license. Found: " + s + ". Valid values: " +
		strings.Join(licenses(), ", ") + ". Read more about BPF programs and licensing: " +
		"https://docs.kernel.org/bpf/bpf_licensing.html#using-bpf-programs-in-the-linux-kernel"
}

// always returns a message that does not depend on the value.
func always(msg string) func(string) string { return func(string) string { return msg } }
