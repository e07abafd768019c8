package lower

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/uapi"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// ksym is the address: whoever prints it has the name.
func (l *lowerer) ksym(c *syntax.Call) *ir.Expr {
	return castTo(ir.Uint64Type(), l.expr(c.Args[0]))
}

// usym is the address with the process, whose names it may have.
func (l *lowerer) usym(c *syntax.Call) *ir.Expr { return l.userAddress(c, l.expr(c.Args[0])) }

func (l *lowerer) userAddress(n syntax.Expr, address *ir.Expr) *ir.Expr {
	process := l.announce(n)
	return &ir.Expr{Op: ir.OpTuple, Type: l.of(n), Args: []*ir.Expr{castTo(ir.Uint64Type(), address), process}}
}

// function is the address of the probed function.
func (l *lowerer) function(x *syntax.Builtin) *ir.Expr {
	if l.typ(x).Kind == types.Usym {
		return l.userAddress(x, ir.NewBuiltin("func"))
	}
	return castTo(ir.Uint64Type(), ir.NewBuiltin("func"))
}

func (l *lowerer) kaddr(c *syntax.Call) *ir.Expr {
	e := &ir.Expr{Op: ir.OpKaddr, Str: c.Args[0].(*syntax.String).Value}
	return castTo(l.of(c), e)
}

func (l *lowerer) uaddr(c *syntax.Call) *ir.Expr {
	e := &ir.Expr{Op: ir.OpUaddr, Str: c.Args[0].(*syntax.String).Value}
	return castTo(l.of(c), e)
}

// percpuAddress is the address of a CPU's instance of a variable of the kernel, of this CPU if none
// is given.
func (l *lowerer) percpuAddress(c *syntax.Call) *ir.Expr {
	cpu := ir.NewBuiltin("cpu")
	if len(c.Args) > 1 {
		cpu = l.expr(c.Args[1])
	}
	base := &ir.Expr{Op: ir.OpKaddr, Str: c.Args[0].(*syntax.String).Value}
	return castTo(l.of(c), ir.NewExpr(ir.OpPerCPU, base, cpu))
}

// space returns a pointer as one to kernel memory, or to user memory.
func (l *lowerer) space(c *syntax.Call, op ir.Op) *ir.Expr {
	x := l.expr(c.Args[0])
	if t := l.of(c); t.Kind == ir.KindPtr {
		return castTo(t, ir.NewExpr(op, x))
	}
	return x
}

// Families of addresses, of Linux (include/linux/socket.h).
const (
	afINET  = 2
	afINET6 = 10
)

// ntop is the family and the address.
func (l *lowerer) ntop(c *syntax.Call) *ir.Expr {
	x := c.Args[len(c.Args)-1]
	t := l.typ(x)
	family := constant(ir.Uint64Type(), afINET)
	if t.Kind == types.Array || t.Kind == types.String {
		family.Int = afINET6
	}
	if len(c.Args) > 1 {
		family = castTo(ir.Uint64Type(), l.expr(c.Args[0]))
	}
	of := l.of(c)
	return &ir.Expr{Op: ir.OpTuple, Type: of, Args: []*ir.Expr{family, l.bytes(x, of.Fields[1].Type.Size)}}
}

// pton is the bytes of an address that the script has as text.
func (l *lowerer) pton(c *syntax.Call) *ir.Expr {
	text, ok := c.Args[0].(*syntax.String)
	if !ok {
		return l.missing(c, "pton() of text that is not a literal")
	}
	a, err := netip.ParseAddr(text.Value)
	if err != nil {
		l.fail(c, "pton(): "+err.Error())
		return ir.NewConst(0)
	}
	return &ir.Expr{Op: ir.OpBytes, Type: l.of(c), Str: string(a.AsSlice())}
}

// bytes returns a number, or an array, as bytes in memory's order, with zeros behind them.
func (l *lowerer) bytes(x syntax.Expr, size int) *ir.Expr {
	to := ir.BytesType(size)
	t := l.typ(x)
	if t.Kind == types.Integer || t.Kind == types.Pointer {
		n := castTo(ir.IntType(4, false), l.expr(x))
		n = castTo(ir.BytesType(4), n)
		return castTo(to, n)
	}
	if from := l.address(x); from != nil {
		from = castTo(ir.PtrType(nil, user(t)), from)
		n := min(size, int(t.Size))
		read := &ir.Expr{Op: ir.OpBuf, Type: ir.BytesType(n), Args: []*ir.Expr{from}}
		return castTo(to, l.reading(x, t, read))
	}
	return castTo(to, l.expr(x))
}

func (l *lowerer) macaddr(c *syntax.Call) *ir.Expr { return l.bytes(c.Args[0], 6) }

func (l *lowerer) bswap(c *syntax.Call) *ir.Expr {
	t := l.of(c)
	x := castTo(t, l.expr(c.Args[0]))
	return ir.NewExpr(ir.OpBswap, x)
}

// text returns a call of an operation on texts, with its type.
func (l *lowerer) text(c *syntax.Call, op ir.Op) *ir.Expr {
	args := c.Args
	n := int64(0)
	if op == ir.OpStrncmp || op == ir.OpMemcmp {
		i, ok := args[2].(*syntax.Integer)
		if !ok || i.Negative {
			return l.missing(c, c.Name+"() of a length that is not a literal")
		}
		n, args = int64(i.Value), args[:2]
	}
	if t := l.of(args[0]); op == ir.OpMemcmp && t.Kind == ir.KindTuple && t.Equal(l.of(args[1])) {
		// How tuples are compared: whether they are equal is all that is asked.
		same := ir.NewExpr(ir.OpEq, l.in(args...)...)
		zero := constant(l.of(c), 0)
		one := constant(l.of(c), 1)
		return &ir.Expr{Op: ir.OpCond, Type: l.of(c), Args: []*ir.Expr{same, zero, one}}
	}
	for _, a := range args {
		if hasNames(l.typ(a)) {
			return l.missing(c, c.Name+"() of the name of a number")
		}
	}
	e := &ir.Expr{Op: op, Int: n, Args: l.in(args...)}
	return castTo(l.of(c), e)
}

func (l *lowerer) signal(c *syntax.Call) *ir.Expr {
	n := l.expr(c.Args[0])
	if s, ok := c.Args[0].(*syntax.String); ok {
		v, _ := uapi.Lookup(l.o.Arch, "SIG"+strings.TrimPrefix(strings.ToUpper(s.Value), "SIG"))
		n = constant(ir.IntType(4, false), v)
	}
	s := &ir.Stmt{Op: ir.StmtSignal, X: n, Thread: c.Name == "signal_thread"}
	s.Site = l.failure(c, "send_"+c.Name)
	l.add(c, s)
	return ir.NewConst(0)
}

func (l *lowerer) override(c *syntax.Call) *ir.Expr {
	l.add(c, &ir.Stmt{Op: ir.StmtOverride, X: l.expr(c.Args[0])})
	return ir.NewConst(0)
}

// taskMembers are what the functions and builtins of these names are of a task.
var taskMembers = map[string]string{
	"leader_comm": "group_leader->comm", "leader_tid": "group_leader->pid",
	"pcomm": "real_parent->comm", "ppid": "real_parent->pid",
}

// taskMember reads a member of a task.
func (l *lowerer) taskMember(n syntax.Expr, name string, task *ir.Expr) *ir.Expr {
	e := &ir.Expr{Op: ir.OpMember, Str: taskMembers[name], Args: []*ir.Expr{task}}
	return castTo(l.of(n), l.failing(n, "probe_read_kernel", e))
}

// ofTask is a member of the task that is given, or of the current one.
func (l *lowerer) ofTask(c *syntax.Call) *ir.Expr {
	if len(c.Args) == 0 {
		return l.builtin(&syntax.Builtin{Loc: c.Loc, Name: builtinName(c.Name)})
	}
	return l.taskMember(c, builtinName(c.Name), l.expr(c.Args[0]))
}

// id is the process or thread in the namespace of whoever runs the script, or in the initial one,
// whose numbers the kernel's tasks have.
func (l *lowerer) id(c *syntax.Call) *ir.Expr {
	if len(c.Args) > 0 {
		if mode, ok := c.Args[0].(*syntax.Identifier); ok && mode.Name == "init" {
			member := map[string]string{"pid": "tgid", "tid": "pid"}[c.Name]
			e := &ir.Expr{Op: ir.OpMember, Str: member, Args: []*ir.Expr{ir.NewBuiltin("curtask")}}
			return castTo(l.of(c), e)
		}
	}
	return castTo(l.of(c), ir.NewBuiltin(c.Name))
}

// cgroupID is the id of a control group, which is known before the script runs.
func (l *lowerer) cgroupID(c *syntax.Call) *ir.Expr {
	if l.o.CgroupID == nil {
		return l.missing(c, "cgroupid() for another machine")
	}
	id, err := l.o.CgroupID(c.Args[0].(*syntax.String).Value)
	if err != nil {
		l.fail(c, "cgroupid(): "+err.Error())
	}
	return constant(l.of(c), int64(id))
}

// socketCookie is the id of a socket, of which the kernel must know that it is one.
func (l *lowerer) socketCookie(c *syntax.Call) *ir.Expr {
	l.out.Typed = l.out.Typed || l.point.Provider == "rawtracepoint"
	return castTo(l.of(c), ir.NewExpr(ir.OpSocketCookie, l.ownArgument(c.Args[0])))
}

// packet emits the beginning of a packet for a file. The result is that nothing is wrong: what finds no room is
// counted.
func (l *lowerer) packet(c *syntax.Call) *ir.Expr {
	skip, ok := l.literal(c.Args[3])
	if !ok || skip < 0 || skip > ir.MaxPacket {
		return l.missing(c.Args[3], "skboutput() of an offset that is not a literal below 65,489")
	}
	l.out.Typed = l.out.Typed || l.point.Provider == "rawtracepoint"
	file := c.Args[0].(*syntax.String).Value
	i := slices.IndexFunc(l.out.Packets, func(p *Packets) bool { return p.File == file && p.Skip == int(skip) })
	if i < 0 {
		i = len(l.out.Packets)
		m := &ir.Map{Name: "packets_" + strconv.Itoa(i), Kind: ir.MapPerf, Entries: l.o.Ring, Value: ir.TypeOf[ir.PacketHead]()}
		l.out.Packets = append(l.out.Packets, &Packets{file, int(skip), m})
		l.out.IR.Maps = append(l.out.IR.Maps, m)
	}
	l.add(c, &ir.Stmt{
		Op: ir.StmtPacket, Map: l.out.Packets[i].IR, Key: l.ownArgument(c.Args[1]), X: castTo(ir.IntType(4, false), l.expr(c.Args[2])),
	})
	return constant(l.of(c), 0)
}

// ownArgument returns a value, as an argument of the probe if it is that of a builtin such as arg0, also after casts:
// of what the kernel knows to be one, it knows what it points to.
func (l *lowerer) ownArgument(x syntax.Expr) *ir.Expr {
	of := x
	for {
		c, ok := of.(*syntax.Cast)
		if !ok {
			break
		}
		of = c.X
	}
	if b, ok := of.(*syntax.Builtin); ok {
		if n, ok := argument(b.Name); ok {
			return &ir.Expr{Op: ir.OpArg, Int: int64(n)}
		}
	}
	return l.expr(x)
}

// path is the text of a struct path.
func (l *lowerer) path(c *syntax.Call) *ir.Expr {
	from := l.address(c.Args[0])
	if from == nil {
		from = l.expr(c.Args[0])
	}
	return l.failing(c, "d_path", &ir.Expr{Op: ir.OpPath, Type: l.of(c), Args: []*ir.Expr{from}})
}
