package config

import (
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// unstable checks a script for unstable features that the configuration does not enable. It
// warns once of each option.
func (r *configReader) unstable(f *syntax.File) {
	warned := map[string]bool{}
	check := func(n syntax.Node, value, feature, option string) {
		switch {
		case value == "error" && option == "unstable_import_statement":
			r.say(n, syntax.SeverityError, "Import statements that are not at the top level are "+
				"primarily for the standard library. If this is functionality you need, please file "+
				"an issue to explain why.")
		case value == "error":
			r.say(n, syntax.SeverityError, feature+" feature is not enabled by default. To enable "+
				"this unstable feature, set the config flag to enable. "+option+"=enable")
		case value == "warn" && !warned[option]:
			warned[option] = true
			r.say(nil, syntax.SeverityWarning, "Script is using an unstable feature: "+feature+
				". To prevent this warning you must explicitly enable it in the config e.g. "+
				option+"=enable")
		}
	}
	top := map[syntax.Node]bool{}
	for _, d := range f.Decls {
		top[d] = true
	}
	for n := range syntax.All(f) {
		switch n := n.(type) {
		case *syntax.Import:
			if !top[n] {
				check(n, r.config.UnstableImportStatement, "import statements",
					"unstable_import_statement")
			}
		case *syntax.TypeInfo:
			check(n, r.config.UnstableTypeinfo, "typeinfo", "unstable_typeinfo")
		case *syntax.Call:
			switch n.Name {
			case "tseries":
				check(n, r.config.UnstableTSeries, "tseries", "unstable_tseries")
			case "dw_ustack":
				check(n, r.config.UnstableDWUstack, "dw_ustack (DWARF stack unwinding)",
					"unstable_dw_ustack")
			}
		}
	}
}

// deprecated checks a script for features that bpftrace has removed or deprecated.
func (r *configReader) deprecated(f *syntax.File) {
	for n := range syntax.All(f) {
		switch n := n.(type) {
		case *syntax.Builtin:
			if strings.HasPrefix(n.Name, "sarg") {
				e := r.say(n, syntax.SeverityError, "sarg* is deleted. This was deprecated in v0.21 "+
					"and was last available in v0.24.")
				e.Hints = []string{`Use *(reg("sp") + <stack_offset>) instead.`}
			}
		case *syntax.While:
			e := r.say(n, syntax.SeverityWarning,
				"While loops are deprecated and may be removed in the future.")
			e.Hints = []string{"For loops support ranges (e.g. `for ($x : $start..$end) { ... }`), " +
				"and can be used in place of while. These are more easily proven to be bounded by the " +
				"verifier."}
		}
	}
}

// Portable checks that bpftrace can compile a script, with its macros expanded, ahead of time
// for other machines: it must not use anything that is determined at its start, or casts,
// since casts to structs use the offsets of this kernel. The error is a [syntax.Errors].
func Portable(f *syntax.File) error {
	var errs syntax.Errors
	refuse := func(n syntax.Node, what string) {
		if len(errs) < mostErrors {
			errs = append(errs, &syntax.Error{Loc: *n.At(), Msg: "AOT does not yet support " + what})
		}
	}
	for n := range syntax.All(f) {
		switch n := n.(type) {
		case *syntax.Param:
			refuse(n, "positional parameters")
		case *syntax.Builtin:
			if libraryName(n.Name) == "curtask" {
				refuse(n, "accessing `curtask`")
			}
		case *syntax.Identifier:
			if n.Name == "curtask" {
				refuse(n, "accessing `curtask`")
			}
		case *syntax.Call:
			switch libraryName(n.Name) {
			case "kaddr", "uaddr", "cgroupid":
				refuse(n, n.Name+"()")
			}
		case *syntax.Cast:
			refuse(n, "struct casts")
		}
	}
	return errs.Err()
}

// libraryName returns a builtin's name in scripts; the library's macros use the name with
// "__builtin_".
func libraryName(name string) string { return strings.TrimPrefix(name, "__builtin_") }
