package lower

import (
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// typeOf returns a script's type as ir has it.
func (l *lowerer) typeOf(n syntax.Node, t types.Type) ir.Type {
	switch t.Kind {
	case types.Integer:
		return ir.IntType(int(t.Size), t.Signed)
	case types.Bool:
		return ir.BoolType()
	case types.Pointer:
		return ir.PtrType(cType(*t.Elem), user(t))
	case types.C, types.Array:
		of := ir.BytesType(int(t.Size))
		of.Elem = cType(t)
		return of
	case types.Buffer:
		size := max(int(t.Size)-bufferHead, 1)
		return ir.TupleType(ir.Field{Type: ir.IntType(4, false)}, ir.Field{Type: ir.BytesType(size)})
	case types.Ksym, types.Username, types.CgroupPath:
		return ir.Uint64Type()
	case types.Usym:
		return ir.TupleType(ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: ir.Uint64Type()})
	case types.Inet:
		return ir.TupleType(ir.Field{Type: ir.Uint64Type()}, ir.Field{Type: ir.BytesType(16)})
	case types.MAC:
		return ir.BytesType(6)
	case types.Kstack:
		return ir.BytesType(8 * int(t.Limit)).WithFormat(ir.FormatKstack)
	case types.Ustack:
		return ir.TupleType(ir.Field{Type: ir.Uint64Type()},
			ir.Field{Type: ir.BytesType(8 * int(t.Limit)).WithFormat(ir.FormatUstack)})
	case types.String:
		return ir.StringType(int(max(t.Size, 1) + uint64(l.textRoom())))
	case types.Timestamp:
		return ir.Uint64Type()
	case types.Count, types.Sum, types.Min, types.Max, types.Avg:
		return ir.IntType(8, t.Signed)
	case types.Tuple, types.Record:
		fields := make([]ir.Field, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = ir.Field{Name: f.Name, Type: l.typeOf(n, f.Type)}
		}
		return ir.TupleType(fields...)
	}
	l.missing(n, "a value of type "+t.String())
	return ir.Uint64Type()
}

// of returns the type of an expression as ir has it.
func (l *lowerer) of(x syntax.Expr) ir.Type { return l.typeOf(x, l.typ(x)) }

// defaultText is bpftrace's default of max_strlen. Where texts are shorter, they have room for a NUL
// of their own, so that one that fills its type is seen to have been cut.
const defaultText = 1024

func (l *lowerer) textRoom() int64 {
	if l.o.MaxText < defaultText {
		return 1
	}
	return 0
}

// bufferHead is what a buffer's type has besides its bytes: their number.
const bufferHead = 4
