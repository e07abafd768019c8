package lower

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// args as one value is a record of the arguments: they may be in registers, or at places of the event
// that no value has.

// withRecords returns a type with records in place of args.
func withRecords(t types.Type) types.Type {
	switch {
	case t.Args:
		return argsRecord(t)
	case t.Kind != types.Tuple && t.Kind != types.Record:
		return t
	}
	var fields []types.Field
	for i, f := range t.Fields {
		if of := f.Type; !of.Args && of.Kind != types.Tuple && of.Kind != types.Record {
			continue
		}
		if fields == nil {
			fields = slices.Clone(t.Fields)
		}
		fields[i].Type = withRecords(f.Type)
	}
	if fields != nil {
		t.Fields = fields
	}
	return t
}

// argsRecord returns the record of all arguments, without the fields that all tracepoints have: the
// kernel hides them from programs.
func argsRecord(t types.Type) types.Type {
	r := types.Type{Kind: types.Record}
	if s, ok := t.BTF.(*btf.Struct); ok {
		for _, m := range s.Members {
			if s.Name == "tracepoint_args" && strings.HasPrefix(m.Name, "common_") {
				continue
			}
			of := types.FromBTF(m.Type)
			if of.Kind == types.Pointer {
				of.Space = t.Space
			}
			r.Fields = append(r.Fields, types.Field{Name: m.Name, Type: of})
		}
	}
	return r
}

// isArgs reports whether an expression is args, or what args points to.
func isArgs(x syntax.Expr) bool {
	if u, ok := x.(*syntax.Unary); ok && u.Op == "*" {
		x = u.X
	}
	b, ok := x.(*syntax.Builtin)
	return ok && b.Name == "args"
}

// args returns all arguments.
func (l *lowerer) args(x *syntax.Builtin) *ir.Expr {
	t := l.typ(x)
	if len(t.Fields) == 0 {
		return l.missing(x, "args without arguments as a value")
	}
	out := &ir.Expr{Op: ir.OpTuple, Type: l.of(x)}
	for i, f := range t.Fields {
		e := l.arg(f.Name)
		if f.Type.Kind != types.C && f.Type.Kind != types.Array {
			e = castTo(out.Type.Fields[i].Type, e)
		}
		out.Args = append(out.Args, e)
	}
	return out
}

// arg returns an argument by its name, as the probe has it.
func (l *lowerer) arg(name string) *ir.Expr {
	if name == "$retval" {
		return &ir.Expr{Op: ir.OpRet}
	}
	e := &ir.Expr{Op: ir.OpArg, Str: name}
	switch l.point.Provider {
	case "tracepoint":
		e.Op = ir.OpField
	case "uprobe":
		l.out.DWARF = true
	}
	return e
}
