package expr

import (
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
)

// Spec is a probe in the syntax of trace and argdist: TARGET [/FILTER/] [REST].
type Spec struct {
	// Target is what the probe is attached to.
	Target probe.Target
	// Filter is the filter, nil if there is none, and FilterText its text.
	Filter     *ir.Expr
	FilterText string
	// Rest is the text after the filter; its meaning depends on the tool.
	Rest string
}

// ParseSpec parses a probe. The target is parsed by tool.ParseTarget, and ends at the first
// blank outside quotes. The filter ends at the first slash before a blank or the end of the
// text; a division in it must therefore not have a blank after its slash. User probes are
// restricted to pid, unless it is 0. The error is a *SyntaxError for the filter or the whole
// text, or the target's *probe.SyntaxError.
func ParseSpec(text string, pid int) (s Spec, err error) {
	if text = strings.TrimSpace(text); text == "" {
		return s, &SyntaxError{text, 0, "want a probe: TARGET [/FILTER/] [REST]"}
	}
	target := text[:blank(text)]
	if s.Target, err = tool.ParseTarget(target, pid); err != nil {
		return s, err
	}
	s.Rest = strings.TrimSpace(text[len(target):])
	if !strings.HasPrefix(s.Rest, "/") {
		return s, nil
	}
	n := strings.Index(s.Rest[1:]+" ", "/ ")
	if n < 0 {
		return s, &SyntaxError{
			text, len(text) - len(s.Rest),
			"the filter that begins here has no end: a slash, before a blank or the text's end",
		}
	}
	s.FilterText, s.Rest = s.Rest[1:n+1], strings.TrimSpace(s.Rest[n+2:])
	s.Filter, err = Parse(s.FilterText, s.Target)
	return s, err
}

// blank returns the index of the first blank outside quotes, or len(s).
func blank(s string) int {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ' ' && !quoted:
			return i
		}
	}
	return len(s)
}

// Resolve returns the options for the targets of a program with parsed expressions: types from
// the debug information of the targets' files (DWARF), unless no expression has a use for them.
// With a pattern of functions, which differ in their arguments, they are used if an expression
// names one; numbers are registers of all of them.
func Resolve(p *action.Program) *probe.Options {
	numbers, names := false, false
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		numbers = numbers || e.Op == ir.OpArg || e.Op == ir.OpRet
		names = names || e.Op == ir.OpField
	})
	several := slices.ContainsFunc(p.Actions, func(a ir.Action) bool { return pattern(a.Target) })
	return &probe.Options{DWARF: names || numbers && !several}
}

// pattern reports whether a target may be several functions of programs.
func pattern(t probe.Target) bool {
	const wildcards = "*?["
	switch t := t.(type) {
	case probe.Uprobe:
		return strings.ContainsAny(t.Symbol, wildcards)
	case probe.Uretprobe:
		return strings.ContainsAny(t.Symbol, wildcards)
	}
	return false
}
