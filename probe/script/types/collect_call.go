package types

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/internal/funcs"
	"github.com/borescope/borescope/probe/script/syntax"
)

// ofValue returns the type of a value in the table of functions; its Kind is None if there is
// none.
func ofValue(v funcs.Value) Type {
	t := Type{
		Kind: kindOf[v.Kind], Size: v.Size, Signed: v.Signed, Mode: v.Mode, Internal: v.Internal,
	}
	if v.Kernel {
		t.Space = KernelSpace
	}
	return t
}

func (c *collector) builtinType(n *syntax.Builtin) {
	t := ofValue(rowOf(n.Name).Value)
	if t.Kind != None {
		c.s.set(n, t)
		return
	}
	switch n.Name {
	case "ctx":
		t = c.context()
	case "curtask":
		t = c.kernelStruct("struct task_struct", false)
	case "retval":
		t = c.retval(n)
	case "kstack":
		mode := c.mode
		if mode == "build_id" {
			c.warn(n, "'build_id' stack mode can only be used for ustack. Falling back to 'raw' mode.")
			mode = "raw"
		}
		t = stack(true, mode, c.frames)
	case "ustack", "dw_ustack":
		t = stack(false, c.mode, c.frames)
	case "comm":
		t = text(16)
		t.Space = KernelSpace
	case "func":
		if t = simple(Ksym, 8); c.probe != nil && strings.HasPrefix(c.probe.Points[0].Provider, "u") {
			t = simple(Usym, 16)
		}
	case "args":
		t = c.argsType(n)
	case "default_str_length":
		t = ofLiteral(c.maxString)
	default:
		if argument(n.Name) {
			t = integer(8, false)
			t.Space = space(c.probe)
		} else {
			c.fail(n, "Unknown identifier: '"+n.Name+"'")
		}
	}
	c.s.set(n, t)
}

// context returns the type of ctx.
func (c *collector) context() Type {
	if c.probe == nil {
		return Type{}
	}
	a := c.probe.Points[0]
	switch a.Provider {
	case "kprobe", "kretprobe", "uprobe", "uretprobe", "usdt":
		if c.kernelType("struct pt_regs") != nil {
			return c.kernelStruct("struct pt_regs", true)
		}
	case "profile", "interval", "software", "hardware", "watchpoint":
		return c.kernelStruct("struct bpf_perf_event_data", true)
	case "iter":
		return c.kernelStruct("struct bpf_iter__"+a.Func, true)
	}
	t := pointer(Type{}, NoSpace)
	t.Context = true
	return t
}

func (c *collector) retval(n *syntax.Builtin) Type {
	if c.probe == nil {
		return Type{}
	}
	t := integer(8, false)
	a := c.probe.Points[0]
	if a.Provider == "fentry" || a.Provider == "fexit" {
		args := c.sys.Args(a)
		m := (*btf.Member)(nil)
		if args != nil {
			m, _ = c.member(args, retvalField)
		}
		if m == nil {
			c.fail(n, "Can't find a field "+retvalField)
			return Type{}
		}
		t = FromBTF(m.Type)
	}
	t.Space = space(c.probe)
	return t
}

func (c *collector) argsType(n *syntax.Builtin) Type {
	if c.probe == nil {
		return Type{}
	}
	a := c.probe.Points[0]
	args := c.sys.Args(a)
	if args == nil {
		c.fail(n, "Unable to resolve unique type name.")
		return Type{}
	}
	t := FromBTF(args)
	if len(args.Members) == 0 && a.Provider != "tracepoint" {
		c.fail(n, "Cannot read function parameters")
	}
	t.Context, t.Args = true, true
	t.Space = space(c.probe)
	if a.Provider == "tracepoint" && a.Target == "syscalls" {
		t.Space = UserSpace
	}
	t.Internal = a.Provider == "uprobe"
	return t
}

func (c *collector) callExpr(n *syntax.Call) {
	outer := c.call
	c.call = builtinName(n.Name)
	for _, a := range n.Args {
		c.visit(a)
	}
	c.call = outer
	if aggregates(n.Name) {
		c.aggregation(n)
		return
	}
	name := builtinName(n.Name)
	if name == "exit" {
		return // execution ends here: there is no value
	}
	row := rowOf(name)
	if t := ofValue(row.Result); t.Kind != None && (len(n.Args) > 0 || row.Value.Kind == "") {
		switch name {
		case "has_key", "find", "delete":
			c.keyed(n)
		case "reg":
			if t.Space = space(c.probe); c.probe == nil {
				t.Space = KernelSpace
			}
		}
		c.s.set(n, t)
		return
	}
	c.otherCall(n, name)
}

// keyed adds rules that make the type of a map's key include the key that a function is called
// with.
func (c *collector) keyed(n *syntax.Call) {
	if len(n.Args) < 2 {
		return
	}
	m, ok := n.Args[0].(*syntax.Map)
	if !ok {
		return
	}
	if c.scalar[m.Name] {
		return // useChecker.keyedUse reports it
	}
	c.s.add(keyOf(m.Name), func(in []Type) Type { return c.keyType(m.Name, in[0], n) }, n.Args[1])
	if len(n.Args) < 3 || n.Name != "find" {
		return
	}
	if v, ok := n.Args[2].(*syntax.Variable); ok {
		s := scoped{c.scopeOf(v.Name), v.Name}
		c.s.add(s, func(in []Type) Type { return c.varType(s, in[0], n) }, valueOf(m.Name))
	}
}

// aggregation adds the rules that make an aggregation the value of its map.
func (c *collector) aggregation(n *syntax.Call) {
	m, ok := n.Args[0].(*syntax.Map)
	if !ok {
		c.fail(n.Args[0], n.Name+"() expects a map argument")
		return
	}
	k := kindOf[rowOf(n.Name).Aggregation]
	switch k {
	case Count, Hist, Lhist, Tseries:
		c.s.add(valueOf(m.Name), func([]Type) Type {
			return c.aggregateType(m.Name, aggregate(k, false), n)
		}, n)
	default:
		if len(n.Args) > 2 {
			c.s.add(valueOf(m.Name), func(in []Type) Type { return c.aggregated1(n, m, k, in[0]) },
				n.Args[2])
		}
	}
	c.s.add(keyOf(m.Name), func(in []Type) Type { return c.keyType(m.Name, in[0], n) }, n.Args[1])
	c.s.set(n, simple(Void, 0))
}

// aggregated1 returns the type that one call of sum, avg and the like gives a map.
func (c *collector) aggregated1(n *syntax.Call, m *syntax.Map, k Kind, t Type) Type {
	if t.Kind != Integer {
		c.fail(n, n.Name+"() only supports integer arguments ("+t.String()+" provided)")
		return Type{}
	}
	if old, ok := c.aggregated[m.Name]; ok {
		p, ok := promote(old, t)
		if !ok {
			c.fail(n, "Type mismatch for "+n.Name+": trying to call function with type '"+
				t.String()+"' when it already has a type '"+old.String()+"'")
			return Type{}
		}
		c.aggregated[m.Name] = p
	} else {
		c.aggregated[m.Name] = t
	}
	return c.aggregateType(m.Name, aggregate(k, t.Signed), n)
}

// otherCall adds the rules of a call whose type depends on its arguments.
func (c *collector) otherCall(n *syntax.Call, name string) {
	if len(n.Args) > 0 {
		first := n.Args[0]
		switch name {
		case "buf":
			if len(n.Args) == 1 {
				c.s.add(n, func(in []Type) Type { return c.bufferOf(in[0]) }, first)
				return
			}
		case "kptr", "uptr":
			c.s.add(n, func(in []Type) Type {
				t := in[0]
				if t.Space = KernelSpace; name == "uptr" {
					t.Space = UserSpace
				}
				return t
			}, first)
			return
		case "bswap":
			c.s.add(n, func(in []Type) Type {
				if in[0].Kind != Integer {
					c.fail(n, "bswap() only supports integer arguments ("+in[0].Kind.String()+" provided)")
					return Type{}
				}
				return integer(in[0].Size, false)
			}, first)
			return
		case "nsecs":
			c.s.add(n, func(in []Type) Type {
				return Type{Kind: Integer, Size: 8, Mode: in[0].Mode}
			}, first)
			return
		case "strftime":
			if len(n.Args) > 1 {
				c.s.add(n, func(in []Type) Type {
					return Type{Kind: Timestamp, Size: 16, Mode: in[0].Mode}
				}, n.Args[1])
			}
			return
		case "is_str", "is_ptr", "is_array", "is_integer", "is_unsigned_integer":
			c.s.add(n, func([]Type) Type { return simple(Bool, 1) }, first)
			return
		}
	}
	if t, known := c.callType(n, name); known {
		c.s.set(n, t)
		return
	}
	c.external(n)
}

// callType returns the type of a call that depends on literals only.
func (c *collector) callType(n *syntax.Call, name string) (t Type, known bool) {
	switch name {
	case "str":
		t = text(c.strLength(n))
		t.Space = KernelSpace
	case "buf":
		size := c.mostBuffer()
		if i, ok := n.Args[1].(*syntax.Integer); ok && !i.Negative {
			size = min(size, i.Value)
		}
		t = buffer(size)
		t.Space = KernelSpace
	case "pton":
		t = c.pton(n)
	case "kstack":
		t = c.stackType(n, true)
	case "ustack", "dw_ustack":
		t = c.stackType(n, false)
	case "path":
		t = text(c.maxString)
		if len(n.Args) == 2 {
			if i, ok := n.Args[1].(*syntax.Integer); ok {
				t.Size = i.Value
			}
		}
	default:
		t = ofValue(rowOf(name).Value)
		return t, t.Kind != None
	}
	return t, true
}

func (c *collector) strLength(n *syntax.Call) uint64 {
	if len(n.Args) != 2 {
		return c.maxString
	}
	i, ok := n.Args[1].(*syntax.Integer)
	switch {
	case !ok:
	case i.Negative:
		c.fail(n, "strcannot use negative length ("+fold.Decimal(i)+")")
	case i.Value >= c.maxString:
		c.warn(n, "length param ("+fold.Decimal(i)+") is too long and will be shortened to "+
			strconv.FormatUint(c.maxString, 10)+" bytes (see BPFTRACE_MAX_STRLEN)")
	default:
		return i.Value + 1
	}
	return c.maxString
}

// mostBuffer returns the largest number of bytes of a buffer.
func (c *collector) mostBuffer() uint64 { return max(c.maxString, bufferHead) - bufferHead }

func (c *collector) bufferOf(t Type) Type {
	size := c.mostBuffer()
	if t.Kind == Array {
		size = min(size, t.Len*t.Elem.Size)
	}
	res := buffer(size)
	res.Space = KernelSpace
	return res
}

func (c *collector) pton(n *syntax.Call) Type {
	s, ok := n.Args[0].(*syntax.String)
	if !ok {
		c.fail(n, "pton() expects an string literal at the first argument")
		return Type{}
	}
	size := uint64(4)
	switch {
	case strings.Contains(s.Value, "."):
	case strings.Contains(s.Value, ":"):
		size = 16
	default:
		c.fail(n, "pton() expects an string argument of an IPv4/IPv6 address, got "+s.Value)
		return Type{}
	}
	a, err := netip.ParseAddr(s.Value)
	if err != nil || a.Zone() != "" || a.Is4() != (size == 4) {
		c.fail(n, "pton() expects a valid IPv4/IPv6 address, got "+s.Value)
		return Type{}
	}
	t := array(size, integer(1, false))
	t.Space, t.Internal = KernelSpace, true
	return t
}

// mostFrames is the largest number of frames of a stack.
const mostFrames = 1024

func (c *collector) stackType(n *syntax.Call, kernel bool) Type {
	mode, limit := c.mode, c.frames
	at := 0
	if len(n.Args) > 0 {
		if id, ok := n.Args[0].(*syntax.Identifier); ok {
			at = 1
			if mode = id.Name; !stackMode(mode) {
				c.fail(id, "Error parsing stack mode: "+n.Name+": Invalid value for stack_mode: "+
					"valid values are bpftrace, raw, perf, and build_id.")
			}
		} else if len(n.Args) == 2 {
			c.fail(n, "Expected stack mode as first argument")
			at = 1
		}
	}
	if at < len(n.Args) {
		if i, ok := n.Args[at].(*syntax.Integer); ok && !i.Negative {
			limit = i.Value & 0xffff // bpftrace keeps 16 bits
		} else {
			c.fail(n, n.Name+": invalid limit value")
		}
	}
	if limit > mostFrames {
		c.fail(n, n.Name+"([int limit]): limit shouldn't exceed 1024, "+
			strconv.FormatUint(limit, 10)+" given")
	}
	if mode == "build_id" && kernel {
		c.fail(n, "'build_id' stack mode can only be used for ustack")
	}
	return stack(kernel, mode, limit)
}
