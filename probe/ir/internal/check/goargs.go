package check

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// goWords returns the registers with a Go function's arguments, in order. Debug information
// describes arguments that take several: the parts of a string or a slice are the plan's
// Fields.
func (l *locator) goWords() []probe.Arg {
	var words []probe.Arg
	for _, a := range l.pp.Args {
		if a.Loc.Kind == probe.LocationReg {
			words = append(words, a)
			continue
		}
		for _, part := range l.partsOf(a.Name) {
			if part.Loc.Kind == probe.LocationReg {
				words = append(words, part)
			}
		}
	}
	return words
}

// partsOf returns the parts of a Go function's argument or result.
func (l *locator) partsOf(name string) (parts []probe.Arg) {
	for _, f := range l.pp.Fields {
		if l.pp.Go != nil && name != "" && strings.HasPrefix(f.Name, name+".") {
			parts = append(parts, f)
		}
	}
	return parts
}

// goName returns the name in the plan of an argument or result of a Go function, which e is.
func (l *locator) goName(e *ir.Expr) string {
	switch {
	case l.pp.Go == nil || e == nil || e.Op != ir.OpArg && e.Op != ir.OpRet:
		return ""
	case e.Op == ir.OpRet && len(l.pp.Fields) > 0: // the first result, or its first part
		name, _, _ := strings.Cut(l.pp.Fields[0].Name, ".")
		return name
	}
	return e.Str
}

// inParts returns an error that names the parts of an argument or result in several registers,
// nil if it is in one.
func (l *locator) inParts(e *ir.Expr) error {
	parts := l.partsOf(l.goName(e))
	if len(parts) == 0 {
		return nil
	}
	names := make([]string, len(parts))
	for i, p := range parts {
		_, names[i], _ = strings.Cut(p.Name, ".")
	}
	return fmt.Errorf("%s is in several registers: take one of its members %s", e,
		strings.Join(names, ", "))
}

// goPart returns the part of a Go function's argument or result that a member expression
// names: args.s.len. ok is false if it names none.
func (l *locator) goPart(e *ir.Expr) (x *typed.Node, ok bool, err error) {
	if e.Op != ir.OpMember || len(e.Args) != 1 {
		return nil, false, nil
	}
	name := l.goName(e.Args[0])
	whole := name + "." + strings.ReplaceAll(e.Str, "->", ".")
	for _, part := range l.partsOf(name) {
		rest, found := strings.CutPrefix(whole, part.Name)
		if !found || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		x, err := l.located(part)
		if err != nil || rest == "" {
			return x, true, err
		}
		p, err := placeOf(x)
		if err == nil {
			p, err = member(p, strings.TrimPrefix(rest, "."))
		}
		if err != nil {
			return nil, true, err
		}
		x, err = valueAt(p)
		return x, true, err
	}
	return nil, false, nil
}
