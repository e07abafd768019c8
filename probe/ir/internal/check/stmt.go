package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

func (c *checker) block(list []*ir.Stmt) ([]*typed.Stmt, error) {
	return c.blockDepth(list, 0)
}

func (c *checker) blockDepth(list []*ir.Stmt, depth int) ([]*typed.Stmt, error) {
	if depth > 32 {
		return nil, errors.New("statements nested more than 32 deep")
	}
	// The assignments before an enclosing statement are not part of this block.
	outer := c.before
	c.before = nil
	defer func() { c.before = outer }()
	out := make([]*typed.Stmt, 0, len(list))
	defer c.closeScope(len(c.scope))
	for _, s := range list {
		if s == nil {
			return nil, errors.New("missing statement")
		}
		x, err := c.stmt(s, depth)
		if err != nil {
			return nil, At(s.Pos, typed.Line(s), err)
		}
		out = append(append(out, c.before...), x)
		c.before = nil
	}
	return out, nil
}

// closeScope removes the variables that a block declared: whether they are set after it
// depends on whether it ran.
func (c *checker) closeScope(n int) {
	for _, v := range c.scope[n:] {
		delete(c.vars, v)
	}
	c.scope = c.scope[:n]
}

func (c *checker) stmt(s *ir.Stmt, depth int) (*typed.Stmt, error) {
	c.pos = s.Pos
	out := &typed.Stmt{
		Op: s.Op, Map: s.Map, Delete: s.Delete, Flag: s.Flag, Max: s.Max,
		Thread: s.Thread, Off: s.Off, Text: s.Text, Site: c.failureSite(s.Site), Pos: s.Pos,
	}
	var err error
	if s.Op != ir.StmtAgg {
		if err := flippedMap(s.Map); err != nil {
			return nil, err
		}
	}
	switch s.Op {
	case ir.StmtLet:
		return out, c.let(out, s)
	case ir.StmtIf:
		if out.X, err = c.condition(s.X); err != nil {
			return nil, err
		}
		return out, c.bodies(out, s, depth)
	case ir.StmtLoop:
		return out, c.loop(out, s, depth)
	case ir.StmtForEach:
		return out, c.forEach(out, s, depth)
	case ir.StmtBreak, ir.StmtContinue:
		if c.loops == 0 {
			return nil, fmt.Errorf("%s outside of a loop", s.Op)
		}
		return out, nil
	case ir.StmtReturn:
		return out, nil
	case ir.StmtExit:
		if s.X == nil {
			return out, nil
		}
		return out, c.effect(out, s, ir.IntType(4, true))
	case ir.StmtSkip:
		return out, c.session(s.Op.String())
	case ir.StmtCookie:
		if err := c.session(s.Op.String()); err != nil {
			return nil, err
		}
		return out, c.effect(out, s, ir.Uint64Type())
	case ir.StmtFind:
		return out, c.find(out, s, depth)
	case ir.StmtSet, ir.StmtDelete, ir.StmtAdd:
		return out, c.store(out, s)
	case ir.StmtAgg:
		return out, c.aggregate(out, s)
	case ir.StmtEmit:
		return out, c.emit(out, s)
	case ir.StmtPacket:
		return out, c.packet(out, s)
	case ir.StmtSignal:
		return out, c.effect(out, s, ir.IntType(4, false))
	case ir.StmtOverride:
		return out, c.override(out, s)
	case ir.StmtTrace:
		return out, c.trace(out, s)
	case ir.StmtEval:
		out.X, err = c.expr(s.X)
		return out, err
	}
	return nil, fmt.Errorf("no such statement: %d", s.Op)
}

func (c *checker) bodies(out *typed.Stmt, s *ir.Stmt, depth int) (err error) {
	if out.Body, err = c.blockDepth(s.Body, depth+1); err != nil {
		return err
	}
	out.Else, err = c.blockDepth(s.Else, depth+1)
	return err
}

// bind sets a variable's type, or checks that it already has that type.
func (c *checker) bind(v *ir.Var, t ir.Type) (*ir.Var, error) {
	if v == nil {
		return nil, errors.New("missing variable")
	}
	if have := c.vars[v]; have != nil {
		if !have.Type.Equal(t) {
			return nil, fmt.Errorf("variable %s is %s, not %s", v.Name, have.Type, t)
		}
		return have, nil
	}
	if v.Type.Kind != ir.KindAuto {
		if !v.Type.Equal(t) {
			return nil, fmt.Errorf("variable %s is %s, not %s", v.Name, v.Type, t)
		}
		t = v.Type
	}
	n := &ir.Var{Name: v.Name, Type: t}
	c.vars[v] = n
	c.scope = append(c.scope, v)
	c.list = append(c.list, n)
	return n, nil
}

func (c *checker) let(out *typed.Stmt, s *ir.Stmt) error {
	x, err := c.expr(s.X)
	if err != nil {
		return err
	}
	want := ir.Type{}
	if s.Var != nil {
		want = s.Var.Type
		if have := c.vars[s.Var]; have != nil {
			want = have.Type
		}
	}
	if want.Kind != ir.KindAuto {
		if x, err = convert(x, want); err != nil {
			return err
		}
	}
	out.X = x
	out.Var, err = c.bind(s.Var, x.Type)
	return err
}

func (c *checker) condition(e *ir.Expr) (*typed.Node, error) {
	x, err := c.expr(e)
	if err != nil {
		return nil, err
	}
	return truth(x)
}

func (c *checker) loop(out *typed.Stmt, s *ir.Stmt, depth int) error {
	defer c.closeScope(len(c.scope))
	x, err := c.expr(s.X)
	if err != nil {
		return err
	}
	if out.X, err = convertNumber(x, ir.IntType(4, false)); err != nil {
		return err
	}
	switch {
	case x.Const() && (s.Max == 0 || int64(s.Max) > x.Int):
		out.Max = int(max(x.Int, 0))
	case s.Max <= 0:
		return errors.New("a loop whose count is not constant needs Max")
	}
	if err := c.turns(out.Max); err != nil {
		return err
	}
	if s.Var == nil {
		out.Var = &ir.Var{Name: "i", Type: ir.IntType(4, false)}
		c.list = append(c.list, out.Var)
	} else if out.Var, err = c.bind(s.Var, ir.IntType(4, false)); err != nil {
		return err
	}
	c.loops++
	err = c.bodies(out, s, depth)
	c.loops--
	return err
}

func (c *checker) forEach(out *typed.Stmt, s *ir.Stmt, depth int) error {
	defer c.closeScope(len(c.scope))
	if err := entryMap(s.Map); err != nil {
		return err
	}
	if !c.kern.AtLeast(ForEachSince) {
		return Unsupported("loop over a map", ForEachSince, "this plan is for Linux "+c.plan.Kernel)
	}
	key := s.Map.Key
	switch kernelKind(s.Map) {
	case ebpf.Hash, ebpf.LRUHash:
	case ebpf.Array:
		key = ir.IntType(4, false)
	case ebpf.PerCPUHash, ebpf.LRUCPUHash:
		if s.Var2 != nil {
			return fmt.Errorf("map %s has a value on each CPU: a loop over it has the keys only", s.Map.Name)
		}
	default:
		return fmt.Errorf("loop over a map of kind %s", s.Map.Kind)
	}
	var err error
	if s.Var != nil {
		if out.Var, err = c.bind(s.Var, key); err != nil {
			return err
		}
	}
	if s.Var2 != nil {
		if out.Var2, err = c.bind(s.Var2, s.Map.Value); err != nil {
			return err
		}
	}
	c.loops++
	err = c.bodies(out, s, depth)
	c.loops--
	return err
}

// key determines the type of a statement's key.
func (c *checker) key(s *ir.Stmt) (*typed.Node, error) {
	if s.Map == nil {
		return nil, errors.New("missing map")
	}
	if s.Key == nil {
		return c.keyOf(s.Map, nil)
	}
	k, err := c.expr(s.Key)
	if err != nil {
		return nil, err
	}
	return c.keyOf(s.Map, k)
}

func (c *checker) find(out *typed.Stmt, s *ir.Stmt, depth int) (err error) {
	if err = plainMap(s.Map); err != nil {
		return err
	}
	if out.Key, err = c.key(s); err != nil {
		return err
	}
	if s.Delete && !Deletable(s.Map) {
		return fmt.Errorf("entries of %s %s cannot be deleted", s.Map.Kind, s.Map.Name)
	}
	n := len(c.scope)
	if s.Var != nil {
		if out.Var, err = c.bind(s.Var, s.Map.Value); err != nil {
			return err
		}
	}
	if out.Body, err = c.blockDepth(s.Body, depth+1); err != nil {
		return err
	}
	c.closeScope(n)
	out.Else, err = c.blockDepth(s.Else, depth+1)
	return err
}

func (c *checker) store(out *typed.Stmt, s *ir.Stmt) (err error) {
	writable := plainMap
	if s.Op == ir.StmtDelete {
		writable = entryMap
	}
	if err = writable(s.Map); err != nil {
		return err
	}
	if out.Key, err = c.key(s); err != nil {
		return err
	}
	if s.Op == ir.StmtDelete {
		if !Deletable(s.Map) {
			return fmt.Errorf("entries of %s %s cannot be deleted", s.Map.Kind, s.Map.Name)
		}
		return nil
	}
	x, err := c.expr(s.X)
	if err != nil {
		return err
	}
	if s.Op == ir.StmtAdd && (s.Map.Value.Kind != ir.KindInt || s.Map.Value.Size < 4) {
		return fmt.Errorf("map %s holds %s: only 32 and 64-bit integers can be added to", s.Map.Name,
			s.Map.Value)
	}
	if out.X, err = convert(x, s.Map.Value); err != nil {
		return fmt.Errorf("value of %s: %w", s.Map.Name, err)
	}
	return nil
}

func (c *checker) aggregate(out *typed.Stmt, s *ir.Stmt) (err error) {
	if s.Map == nil || s.Map.Agg == ir.AggNone {
		return errors.New("the map does not aggregate")
	}
	if out.Key, err = c.key(s); err != nil {
		return err
	}
	if s.Time != nil {
		if s.Map.Agg != ir.AggSeries {
			return fmt.Errorf("%s has no times", s.Map.Agg)
		}
		t, err := c.expr(s.Time)
		if err == nil {
			out.Time, err = convertNumber(t, ir.Uint64Type())
		}
		if err != nil {
			return err
		}
	}
	if s.Map.Agg == ir.AggCount {
		if s.X != nil {
			return errors.New("count takes no value")
		}
		return nil
	}
	if s.X == nil {
		if s.Map.Agg == ir.AggSeries && s.Map.Inner == ir.AggCount {
			return nil
		}
		return fmt.Errorf("%s needs a value", s.Map.Agg)
	}
	x, err := c.expr(s.X)
	if err != nil {
		return err
	}
	out.X, err = convertNumber(x,
		ir.IntType(8, s.Map.Signed || s.Map.Agg == ir.AggHist || s.Map.Agg == ir.AggLinear))
	return err
}

func (c *checker) emit(out *typed.Stmt, s *ir.Stmt) error {
	if s.Map == nil || s.Map.Kind != ir.MapRing && s.Map.Kind != ir.MapPerf {
		return errors.New("the map is neither a ring buffer nor a perf buffer")
	}
	x, err := c.expr(s.X)
	if err != nil {
		return err
	}
	if x.Op == ir.OpTuple && x.Type.Size == s.Map.Value.Size &&
		len(x.Args) != len(s.Map.Value.Fields) {
		out.X = x // another form of the same size, such as a line of a Log
		return nil
	}
	if out.X, err = convert(x, s.Map.Value); err != nil {
		return fmt.Errorf("event of %s: %w", s.Map.Name, err)
	}
	return nil
}

// mostTrace is the size of a line of the kernel's trace with its NUL (BPF_TRACE_PRINTK_SIZE,
// kernel/trace/bpf_trace.c): a longer one is cut.
const mostTrace = 1024

func (c *checker) trace(out *typed.Stmt, s *ir.Stmt) (err error) {
	if s.Text == "" || len(s.Text) >= mostTrace || strings.IndexByte(s.Text, 0) >= 0 {
		return fmt.Errorf("a format of %d bytes: want 1 to %d, without NUL", len(s.Text), mostTrace-1)
	}
	if s.X == nil {
		return nil
	}
	if out.X, err = c.expr(s.X); err != nil {
		return err
	}
	if out.X.Op != ir.OpTuple || len(out.X.Args) > 3 {
		return errors.New("the values of a trace must be a tuple of at most three")
	}
	for _, a := range out.X.Args {
		if !a.Type.Scalar() && a.Type.Kind != ir.KindString {
			return fmt.Errorf("%s in a trace: want a number or a text", a.Type)
		}
	}
	return nil
}

func (c *checker) effect(out *typed.Stmt, s *ir.Stmt, t ir.Type) error {
	x, err := c.expr(s.X)
	if err != nil {
		return err
	}
	out.X, err = convertNumber(x, t)
	return err
}

// override checks an override of the return value, and determines the type of the new one.
func (c *checker) override(out *typed.Stmt, s *ir.Stmt) error {
	t := c.pp.Type
	if t != ebpf.Kprobe && c.pp.AttachType != ebpf.AttachModifyReturn || c.pp.Returns ||
		c.pp.UserRegs {
		return fmt.Errorf("%s cannot override a return value: only kprobe and fmod_ret can",
			c.targetName())
	}
	return c.effect(out, s, ir.Int64Type())
}
