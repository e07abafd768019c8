package ir

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/ir/internal/loops"
)

// String returns the program as readable text: maps, then actions.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s license %q", p.Name, cmp.Or(p.License, DefaultLicense))
	if p.Loops != loops.Best {
		fmt.Fprintf(&b, " loops %s", p.Loops)
	}
	b.WriteByte('\n')
	for _, m := range p.AllMaps() {
		fmt.Fprintf(&b, "map %s\n", m)
	}
	for _, a := range p.Actions {
		name := "?"
		if a.Target != nil {
			name = a.Target.String()
		}
		fmt.Fprintf(&b, "%s {\n", name)
		printStmts(&b, a.Body, 1)
		b.WriteString("}\n")
	}
	return b.String()
}

// String returns the map's declaration: counts percpu_hash[U32] count entries 1024.
func (m *Map) String() string {
	var b strings.Builder
	b.WriteString(m.Name + " " + m.Kind.String())
	if !m.Keyless() {
		b.WriteString("[" + m.Key.String() + "]")
	}
	if m.Agg != AggNone {
		b.WriteString(" " + m.aggString())
	} else {
		b.WriteString(" " + m.Value.String())
	}
	switch m.Entries {
	case 0:
	case EachProbe:
		b.WriteString(" entries of each probe")
	default:
		fmt.Fprintf(&b, " entries %d", m.Entries)
	}
	if m.Flip {
		b.WriteString(" flip")
	}
	return b.String()
}

func (m *Map) aggString() string {
	switch m.Agg {
	case AggHist:
		return fmt.Sprintf("hist(%d)", m.Bits)
	case AggLinear:
		return fmt.Sprintf("lhist(%d, %d, %d)", m.Min, m.Max, m.Step)
	case AggSeries:
		return fmt.Sprintf("tseries(%dns, %d, %s)", m.Interval, m.Slots, m.Inner)
	}
	return m.Agg.String()
}

func printStmts(b *strings.Builder, list []*Stmt, depth int) {
	if depth > 40 {
		return
	}
	for _, s := range list {
		if s == nil {
			continue
		}
		indent := strings.Repeat("\t", depth)
		b.WriteString(indent + s.firstLine())
		if !s.block() {
			b.WriteString("\n")
			continue
		}
		b.WriteString(" {\n")
		printStmts(b, s.Body, depth+1)
		if len(s.Else) > 0 {
			b.WriteString(indent + "} else {\n")
			printStmts(b, s.Else, depth+1)
		}
		b.WriteString(indent + "}\n")
	}
}

func (s *Stmt) block() bool {
	switch s.Op {
	case StmtIf, StmtLoop, StmtForEach, StmtFind:
		return true
	}
	return false
}

// String returns the statement with its blocks.
func (s *Stmt) String() string {
	var b strings.Builder
	printStmts(&b, []*Stmt{s}, 0)
	return strings.TrimSuffix(b.String(), "\n")
}

// firstLine returns the statement without its blocks.
func (s *Stmt) firstLine() string {
	switch s.Op {
	case StmtLet:
		return varName(s.Var) + " = " + s.X.String()
	case StmtIf:
		return "if " + s.X.String()
	case StmtLoop:
		return fmt.Sprintf("for %s < %s max %d", varName(s.Var), s.X, s.Max)
	case StmtForEach:
		return fmt.Sprintf("for %s, %s in %s", varName(s.Var), varName(s.Var2), mapName(s.Map))
	case StmtFind:
		verb := "find"
		if s.Delete {
			verb = "take"
		}
		return fmt.Sprintf("%s %s = %s", verb, varName(s.Var), mapAt(s.Map, s.Key))
	case StmtSet:
		return mapAt(s.Map, s.Key) + [...]string{" = ", " ?= ", " := "}[s.Flag%3] + s.X.String()
	case StmtDelete:
		return "delete " + mapAt(s.Map, s.Key)
	case StmtAdd:
		return mapAt(s.Map, s.Key) + " += " + s.X.String()
	case StmtAgg:
		arg := ""
		if s.X != nil {
			arg = s.X.String()
		}
		if s.Time != nil {
			arg += " at " + s.Time.String()
		}
		name := "?"
		if s.Map != nil {
			name = s.Map.Agg.String()
		}
		return mapAt(s.Map, s.Key) + " = " + name + "(" + arg + ")"
	case StmtEmit:
		return "emit " + mapName(s.Map) + " " + s.X.String()
	case StmtTrace:
		line := "trace " + strconv.Quote(s.Text)
		if s.X != nil {
			line += " " + s.X.String()
		}
		return line
	case StmtPacket:
		line := "packet " + mapAt(s.Map, s.Key)
		if s.X != nil {
			line += " " + s.X.String()
		}
		return line
	}
	text := s.Op.String()
	if s.X != nil {
		text += " " + s.X.String()
	}
	if s.Off {
		text += ", all off"
	}
	return text
}

func varName(v *Var) string {
	if v == nil {
		return "_"
	}
	return "$" + v.Name
}

func mapName(m *Map) string {
	if m == nil {
		return "@?"
	}
	return "@" + m.Name
}

func mapAt(m *Map, key *Expr) string {
	if key == nil {
		return mapName(m)
	}
	return mapName(m) + "[" + key.String() + "]"
}

// String returns the expression as C and bpftrace write it. A very large one is cut.
func (e *Expr) String() string {
	left := maxPrinted
	return e.print(0, &left)
}

// maxPrinted bounds the nodes that String prints.
const maxPrinted = 2000

func (e *Expr) print(depth int, left *int) string {
	if e == nil {
		return "?"
	}
	if *left--; depth > MaxDepth || *left < 0 {
		return "..."
	}
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = a.print(depth+1, left)
	}
	if least, most := e.Op.Arity(); len(args) < least || len(args) > most {
		return e.Op.String() + "(" + strings.Join(args, ", ") + ")"
	}
	if leaf, ok := e.printLeaf(); ok {
		return leaf
	}
	switch e.Op {
	case OpCond:
		return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")"
	case OpCast:
		return "(" + e.Type.String() + ")" + args[0]
	case OpNeg, OpNot, OpLNot, OpDeref:
		return e.Op.String() + args[0]
	case OpMember:
		return args[0] + "->" + e.Str
	case OpAddrOf:
		if len(args) == 2 {
			return "&" + args[0] + "[" + args[1] + "]"
		}
		return "&" + args[0] + "->" + e.Str
	case OpOffset:
		return "offsetof(" + args[0] + ", " + e.Str + ")"
	case OpIndex:
		return args[0] + "[" + args[1] + "]"
	case OpTuple:
		return "(" + strings.Join(args, ", ") + ")"
	case OpElem:
		if e.Str != "" {
			return args[0] + "." + e.Str
		}
		return fmt.Sprintf("%s.%d", args[0], e.Int)
	case OpMapGet, OpMapHas:
		s := mapName(e.Map)
		if len(args) > 0 {
			s += "[" + args[0] + "]"
		}
		if e.Op == OpMapHas {
			return "has(" + s + ")"
		}
		return s
	case OpStr, OpBuf:
		return fmt.Sprintf("%s(%s, %d)", e.Op, strings.Join(args, ", "), e.Type.Size)
	case OpMapCPU:
		return mapName(e.Map) + "[" + strings.Join(args[:len(args)-1], ", ") + "].cpu(" +
			args[len(args)-1] + ")"
	case OpHasPrefix, OpContains, OpIndexOf, OpGlob:
		if len(args) == 1 {
			args = append(args, strconv.Quote(e.Str))
		}
		return e.Op.String() + "(" + strings.Join(args, ", ") + ")"
	case OpStrncmp, OpMemcmp:
		return fmt.Sprintf("%s(%s, %d)", e.Op, strings.Join(args, ", "), e.Int)
	case OpLen, OpBswap, OpPerCPU, OpKptr, OpUptr, OpSocketCookie, OpPath, OpTaskPID, OpTaskTID:
		return e.Op.String() + "(" + strings.Join(args, ", ") + ")"
	}
	return "(" + strings.Join(args, " "+e.Op.String()+" ") + ")"
}

// printLeaf prints an expression of a kind that has no operands; ok is false for
// the others.
func (e *Expr) printLeaf() (s string, ok bool) {
	switch e.Op {
	case OpConst:
		if e.Type.Kind == KindInt && !e.Type.Signed {
			return strconv.FormatUint(uint64(e.Int), 10), true
		}
		return strconv.FormatInt(e.Int, 10), true
	case OpString:
		return strconv.Quote(e.Str), true
	case OpVar:
		return varName(e.Var), true
	case OpVarAddr:
		return "&" + varName(e.Var), true
	case OpBuiltin:
		return e.Str, true
	case OpArg:
		if e.Str == "" {
			return fmt.Sprintf("arg%d", e.Int), true
		}
		return "args." + e.Str, true
	case OpField:
		return "args." + e.Str, true
	case OpRet:
		return "retval", true
	case OpReg:
		return fmt.Sprintf("reg(%d)", e.Int), true
	case OpKaddr:
		return fmt.Sprintf("kaddr(%q)", e.Str), true
	case OpUaddr:
		return fmt.Sprintf("uaddr(%q)", e.Str), true
	case OpBytes:
		return fmt.Sprintf("bytes(%x)", e.Str), true
	case OpEnum:
		return e.Str, true
	case OpSizeof:
		return "sizeof(" + e.Str + ")", true
	case OpKstack, OpUstack, OpUstackWalk:
		return fmt.Sprintf("%s(%d)", e.Op, e.Int), true
	}
	return "", false
}
