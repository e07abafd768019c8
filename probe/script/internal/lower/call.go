package lower

import (
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/internal/printf"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// call returns the value of a call, or, if nobody takes it, adds what it does.
func (l *lowerer) call(c *syntax.Call, used bool) *ir.Expr {
	if aggregations[c.Name] != ir.AggNone {
		l.aggregate(c)
		return ir.NewConst(0)
	}
	name := builtinName(c.Name)
	switch of := ofCurrent(c); {
	case of == "leader_comm":
		return l.taskMember(c, of, ir.NewBuiltin("curtask"))
	case of != "":
		return castTo(l.of(c), ir.NewBuiltin(of))
	case isNamed(c):
		return l.numberOf(c)
	}
	if f := functions[name]; f != nil {
		return f(l, c)
	}
	switch name {
	case "delete":
		return l.remove(c, used)
	case "has_key":
		m := l.mapOf(c)
		if m == nil {
			return ir.NewConst(0)
		}
		if severalEntries(m.IR.Agg) {
			return l.missing(c, "has_key() of a "+m.Value.String())
		}
		return &ir.Expr{Op: ir.OpMapHas, Map: m.IR, Args: []*ir.Expr{l.keyOf(m, c.Args[1])}}
	}
	if len(c.Args) == 0 {
		return l.builtin(&syntax.Builtin{Loc: c.Loc, Name: name})
	}
	return l.missing(c, c.Name+"()")
}

// functions are the functions that are lowered in one way.
var functions map[string]func(l *lowerer, c *syntax.Call) *ir.Expr

func init() { // they lower their arguments
	functions = map[string]func(l *lowerer, c *syntax.Call) *ir.Expr{
		"printf": func(l *lowerer, c *syntax.Call) *ir.Expr { return l.formatted(c, Printf) },
		"errorf": func(l *lowerer, c *syntax.Call) *ir.Expr { return l.formatted(c, Printf) },
		"warnf":  func(l *lowerer, c *syntax.Call) *ir.Expr { return l.formatted(c, Printf) },
		"cat":    func(l *lowerer, c *syntax.Call) *ir.Expr { return l.formatted(c, Cat) },
		"system": func(l *lowerer, c *syntax.Call) *ir.Expr { return l.formatted(c, System) },
		"print":  (*lowerer).print,
		"debugf": (*lowerer).debug,
		"clear":  func(l *lowerer, c *syntax.Call) *ir.Expr { return l.wholeMap(c, Clear) },
		"zero":   func(l *lowerer, c *syntax.Call) *ir.Expr { return l.wholeMap(c, Zero) },
		"time":   (*lowerer).time, "exit": (*lowerer).exit, "strftime": (*lowerer).strftime,
		"join": (*lowerer).join, "len": (*lowerer).size, "pton": (*lowerer).pton,
		"percpu_kaddr": (*lowerer).percpuAddress, "cgroupid": (*lowerer).cgroupID,
		"leader_comm": (*lowerer).ofTask, "leader_tid": (*lowerer).ofTask, "pcomm": (*lowerer).ofTask,
		"ppid": (*lowerer).ofTask, "pid": (*lowerer).id, "tid": (*lowerer).id,
		"socket_cookie": (*lowerer).socketCookie, "skboutput": (*lowerer).packet,
		"strcap": func(l *lowerer, c *syntax.Call) *ir.Expr {
			return constant(l.of(c), int64(l.typ(c.Args[0]).Size))
		},
		"path":  (*lowerer).path,
		"nsecs": (*lowerer).nsecs, "reg": (*lowerer).reg,
		"str": (*lowerer).str, "buf": (*lowerer).buf,
		"ksym": (*lowerer).ksym, "usym": (*lowerer).usym, "kaddr": (*lowerer).kaddr,
		"uaddr": (*lowerer).uaddr, "ntop": (*lowerer).ntop, "macaddr": (*lowerer).macaddr,
		"bswap": (*lowerer).bswap, "signal": (*lowerer).signal, "signal_thread": (*lowerer).signal,
		"override":    (*lowerer).override,
		"kptr":        func(l *lowerer, c *syntax.Call) *ir.Expr { return l.space(c, ir.OpKptr) },
		"uptr":        func(l *lowerer, c *syntax.Call) *ir.Expr { return l.space(c, ir.OpUptr) },
		"strlen":      func(l *lowerer, c *syntax.Call) *ir.Expr { return l.text(c, ir.OpLen) },
		"strcontains": func(l *lowerer, c *syntax.Call) *ir.Expr { return l.text(c, ir.OpContains) },
		"strstr":      func(l *lowerer, c *syntax.Call) *ir.Expr { return l.text(c, ir.OpIndexOf) },
		"strncmp":     func(l *lowerer, c *syntax.Call) *ir.Expr { return l.text(c, ir.OpStrncmp) },
		"memcmp":      func(l *lowerer, c *syntax.Call) *ir.Expr { return l.text(c, ir.OpMemcmp) },
		"kstack":      func(l *lowerer, c *syntax.Call) *ir.Expr { return l.stack(c) },
		"ustack":      func(l *lowerer, c *syntax.Call) *ir.Expr { return l.stack(c) },
		"dw_ustack":   func(l *lowerer, c *syntax.Call) *ir.Expr { return l.stack(c) },
		"username":    func(l *lowerer, c *syntax.Call) *ir.Expr { return ir.NewBuiltin("uid") },
		"cgroup_path": func(l *lowerer, c *syntax.Call) *ir.Expr { return l.expr(c.Args[0]) },
	}
}

// mapOf returns the map that is the first argument of a call.
func (l *lowerer) mapOf(c *syntax.Call) *Map {
	if len(c.Args) > 0 {
		if m, ok := c.Args[0].(*syntax.Map); ok && l.maps[m.Name] != nil {
			return l.maps[m.Name]
		}
	}
	l.missing(c, c.Name+"() of this")
	return nil
}

// remove deletes an element. The value is whether there was one.
func (l *lowerer) remove(c *syntax.Call, used bool) *ir.Expr {
	m := l.mapOf(c)
	if m == nil {
		return ir.NewConst(0)
	}
	if severalEntries(m.IR.Agg) {
		return l.missing(c, "delete() of a "+m.Value.String())
	}
	key := zero(m.IR.Key)
	if len(c.Args) > 1 {
		key = l.keyOf(m, c.Args[1])
	}
	if !used {
		l.add(c, &ir.Stmt{Op: ir.StmtDelete, Map: m.IR, Key: key})
		return ir.NewConst(0)
	}
	if m.IR.Agg != ir.AggNone {
		key = l.kept(c, key, m.IR.Key)
		had := l.let(c, "deleted", &ir.Expr{Op: ir.OpMapHas, Map: m.IR, Args: []*ir.Expr{key}}, ir.BoolType())
		l.add(c, &ir.Stmt{Op: ir.StmtDelete, Map: m.IR, Key: key})
		return ir.NewVar(had)
	}
	v := l.let(c, "deleted", zero(ir.BoolType()), ir.BoolType())
	l.add(c, &ir.Stmt{
		Op: ir.StmtFind, Map: m.IR, Key: key, Delete: true,
		Body: []*ir.Stmt{{
			Op: ir.StmtLet, Var: v, X: constant(ir.BoolType(), 1),
		}},
	})
	return ir.NewVar(v)
}

// values returns the arguments of a call from one on, and adds their types to a site.
func (l *lowerer) values(s *Site, args []syntax.Expr) []*ir.Expr {
	for _, a := range args {
		t := l.typ(a)
		if t.Kind == types.Timestamp && t.Name == "" {
			l.missing(a, "a time in a variable")
		}
		s.Args = append(s.Args, t)
	}
	return l.in(args...)
}

// formatted emits the values of a format.
func (l *lowerer) formatted(c *syntax.Call, k SiteKind) *ir.Expr {
	s := Site{Kind: k, Format: c.Args[0].(*syntax.String).Value}
	if c.Name == "errorf" || c.Name == "warnf" {
		s.Severity = c.Name
	}
	xs := l.values(&s, c.Args[1:])
	l.emit(c, s, xs...)
	return ir.NewConst(0)
}

// debug writes a line to the kernel's trace. Numbers of 64 bits are printed whole.
func (l *lowerer) debug(c *syntax.Call) *ir.Expr {
	format := c.Args[0].(*syntax.String).Value
	s := &ir.Stmt{Op: ir.StmtTrace}
	var fields []ir.Field
	at := 0
	for i, conv := range printf.Conversions(format) {
		t := l.typ(c.Args[i+1])
		if hasNames(t) {
			return l.missing(c.Args[i+1], "the name of a number in debugf()")
		}
		fields = append(fields, ir.Field{Type: l.typeOf(c.Args[i+1], t)})
		s.Text += format[at:conv.Start]
		at = conv.Start
		if end := conv.End - len(conv.Spec); t.Kind == types.Integer && t.Size == 8 && conv.Spec != "p" &&
			!strings.ContainsAny(format[at:end], "hlLjzt") {
			s.Text += format[at:end] + "ll"
			at = end
		}
	}
	s.Text += format[at:]
	if xs := l.in(c.Args[1:]...); len(xs) > 0 {
		s.X = &ir.Expr{Op: ir.OpTuple, Type: ir.TupleType(fields...), Args: xs}
	}
	l.add(c, s)
	return ir.NewConst(0)
}

func (l *lowerer) print(c *syntax.Call) *ir.Expr {
	number := func(i int) int {
		if i < len(c.Args) {
			if n, ok := c.Args[i].(*syntax.Integer); ok && !n.Negative {
				return int(n.Value)
			}
		}
		return 0
	}
	switch x := c.Args[0].(type) {
	case *syntax.Map:
		if m := l.mapOf(c); m != nil {
			l.emit(c, Site{Kind: PrintMap, Map: m, Top: number(1), Div: number(2)})
		}
		return ir.NewConst(0)
	case *syntax.MapAccess:
		if m := l.maps[x.Map.Name]; m != nil && m.IR.Agg != ir.AggNone {
			s := Site{Kind: PrintEntry, Map: m}
			s.Args = []types.Type{m.Key}
			l.emit(c, s, l.expr(x.Key))
			return ir.NewConst(0)
		}
	}
	s := Site{Kind: PrintValue}
	xs := l.values(&s, c.Args[:1])
	l.emit(c, s, xs...)
	return ir.NewConst(0)
}

func (l *lowerer) wholeMap(c *syntax.Call, k SiteKind) *ir.Expr {
	if m := l.mapOf(c); m != nil {
		l.emit(c, Site{Kind: k, Map: m})
	}
	return ir.NewConst(0)
}

const defaultTime = "%H:%M:%S\n"

func (l *lowerer) time(c *syntax.Call) *ir.Expr {
	s := Site{Kind: Time, Format: defaultTime}
	if len(c.Args) > 0 {
		s.Format = c.Args[0].(*syntax.String).Value
	}
	l.emit(c, s)
	return ir.NewConst(0)
}

// exit ends the script with its record, and in the control map in case that the ring is full.
func (l *lowerer) exit(c *syntax.Call) *ir.Expr {
	code := constant(ir.IntType(4, true), 0)
	if len(c.Args) > 0 {
		code = l.expr(c.Args[0])
		code = castTo(ir.IntType(4, true), code)
		code = l.kept(c, code, code.Type)
	}
	s := Site{Kind: Exit, Args: []types.Type{{Kind: types.Integer, Size: 4, Signed: true}}}
	l.emit(c, s, code)
	l.add(c, &ir.Stmt{Op: ir.StmtExit, X: code, Off: l.endsAll()})
	l.add(c, &ir.Stmt{Op: ir.StmtReturn})
	return ir.NewConst(0)
}

// endsAll reports whether exit() in a probe of this kind ends all others at once. All begin probes run,
// all end probes, all tests, and an iterator goes on to its last object.
func (l *lowerer) endsAll() bool {
	return !slices.Contains([]string{"begin", "end", "iter", "test", "bench"}, l.point.Provider)
}

// MostJoined is how many texts join() prints of a list, and joinedText their size. One more is read: it
// tells that the list is longer.
const (
	MostJoined = 16
	joinedText = 1024
)

// join emits the texts of a list of pointers that ends with a null pointer, each in a record of its
// own: together they would be larger than a value may be. Whoever reads them joins those of a thread.
func (l *lowerer) join(c *syntax.Call) *ir.Expr {
	u32, text := types.Type{Kind: types.Integer, Size: 4}, types.Type{Kind: types.String, Size: joinedText}
	list := l.pointer(c.Args[0], types.Type{Kind: types.Integer, Size: 8})
	list = ir.NewVar(l.let(c, "list", list, list.Type))
	tid := func() *ir.Expr {
		return castTo(ir.IntType(4, false), ir.NewBuiltin("tid"))
	}
	i := &ir.Var{Name: "i"}
	body := l.block(func() {
		t := ir.PtrType(nil, list.Var.Type.User)
		at := castTo(t, ir.NewExpr(ir.OpIndex, list, ir.NewVar(i)))
		at = ir.NewVar(l.let(c, "text", at, t))
		l.add(c, &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, at, ir.NewConst(0)), Body: []*ir.Stmt{{Op: ir.StmtBreak}}})
		s := Site{Kind: JoinPart, Args: []types.Type{u32, u32, text}}
		l.emit(c, s, tid(), ir.NewVar(i), &ir.Expr{Op: ir.OpStr, Type: l.typeOf(c, text), Args: []*ir.Expr{at}})
	})
	l.add(c, &ir.Stmt{
		Op: ir.StmtLoop, X: constant(ir.IntType(4, false), MostJoined+1),
		Var: i, Max: MostJoined + 1, Body: body,
	})
	end := Site{Kind: JoinEnd, Format: " ", Args: []types.Type{u32}}
	if len(c.Args) > 1 {
		end.Format = c.Args[1].(*syntax.String).Value
	}
	l.emit(c, end, tid())
	return ir.NewConst(0)
}

// strftime is the time alone: whoever prints it has the format.
func (l *lowerer) strftime(c *syntax.Call) *ir.Expr { return l.expr(c.Args[1]) }

func (l *lowerer) nsecs(c *syntax.Call) *ir.Expr {
	mode := l.typ(c).Mode
	name := map[string]string{
		"": "nsecs_boot", "boot": "nsecs_boot", "monotonic": "nsecs", "tai": "nsecs_tai",
		"sw_tai": "nsecs_sw_tai",
	}[mode]
	if name == "" {
		return l.missing(c, "nsecs("+mode+")")
	}
	return ir.NewBuiltin(name)
}

func (l *lowerer) reg(c *syntax.Call) *ir.Expr {
	name := c.Args[0].(*syntax.String).Value
	n, ok := register(l.o.Arch, name)
	if !ok {
		l.fail(c, "'"+name+"' is not a valid register on this architecture ("+l.o.Arch+")")
	}
	return &ir.Expr{Op: ir.OpReg, Int: n}
}

// argument returns the number of arg0, arg1 and so on.
func argument(name string) (int, bool) {
	s, ok := strings.CutPrefix(name, "arg")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
