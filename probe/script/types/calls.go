package types

import (
	"math"
	"strconv"

	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/internal/funcs"
	"github.com/borescope/borescope/probe/script/syntax"
)

// callUse checks a call.
func (c *useChecker) callUse(n *syntax.Call) {
	for _, a := range n.Args {
		c.visit(a)
	}
	name, row := builtinName(n.Name), rowOf(n.Name)
	ok := true
	for i, spec := range row.Args {
		if i < len(n.Args) {
			ok = c.argument(n, i, spec) // the last argument decides, as in bpftrace
		}
	}
	if !ok {
		return
	}
	if row.Format {
		c.format(n)
		return
	}
	switch name {
	case "print":
		c.print(n)
	case "fail":
		c.failCall(n)
	case "nsecs":
		if c.types.at(n).Mode == "tai" && !c.sys.Has("ktime_get_tai_ns") {
			c.fail(n, "Kernel does not support tai timestamp, please try sw_tai")
		}
	case "strftime":
		if c.types.at(n).Mode == "monotonic" {
			c.fail(n, "strftime() can not take a monotonic timestamp")
		}
	case "hist", "lhist", "tseries":
		c.resource(n, name)
	default:
		if len(n.Args) > 0 {
			c.firstArg(n, name, c.types.at(n.Args[0]))
		}
		c.externalUse(n)
	}
}

func (c *useChecker) argument(n *syntax.Call, i int, s funcs.Arg) bool {
	if s.Kind == "" {
		return true
	}
	x := n.Args[i]
	t := c.types.at(x)
	switch {
	case s.Literal && (!fold.Literal(x) || t.Kind.String() != s.Kind):
		c.fail(n, n.Name+"() expects a "+s.Kind+" literal ("+t.Kind.String()+" provided)")
		return false
	case t.Kind.String() != s.Kind:
		c.fail(n, n.Name+"() only supports "+s.Kind+" arguments ("+t.Kind.String()+
			" provided)")
		return false
	}
	return true
}

// firstArg checks the first argument of functions that have special rules for it.
func (c *useChecker) firstArg(n *syntax.Call, name string, t Type) {
	in := func(kinds ...Kind) bool {
		for _, k := range kinds {
			if t.Kind == k {
				return true
			}
		}
		return false
	}
	refuse := func(ok bool, msg string) {
		if !ok {
			c.fail(n, msg)
		}
	}
	kind := " (" + t.Kind.String() + " provided)"
	switch name {
	case "str":
		refuse(in(String, Integer, Pointer), "str() expects a string, integer or a pointer type as "+
			"first argument ("+t.String()+" provided)")
	case "buf":
		c.buf(n, t)
	case "ksym", "usym":
		refuse(in(Integer, Pointer), name+"() expects an integer or pointer argument")
	case "ntop":
		c.ntop(n)
	case "join":
		refuse(in(Integer, Pointer), "() only supports int or pointer arguments"+kind)
	case "percpu_kaddr":
		if s, ok := n.Args[0].(*syntax.String); ok && c.sys.Variable(s.Value) == nil {
			c.fail(n, "Could not resolve variable \""+s.Value+"\" from BTF")
		}
	case "stack_len":
		refuse(in(Kstack, Ustack), "len() expects a map or stack to be provided")
	case "len":
		c.length(n, t)
	case "path":
		refuse(c.sys.Has("d_path"), "BPF_FUNC_d_path not available for your kernel version")
		refuse(in(C, Pointer), "path() only supports pointer or C type argument"+kind)
	case "kptr", "uptr":
		refuse(in(Integer, Pointer), name+"() only supports integer or pointer arguments"+kind)
	case "macaddr":
		refuse(in(Integer, Array, Pointer) || t.bytes(),
			"macaddr() only supports array or pointer arguments"+kind)
		if _, ok := n.Args[0].(*syntax.String); ok {
			c.fail(n, "macaddr() does not support literal string arguments")
		}
		refuse(t.Kind != Array && !t.bytes() || t.Size >= 6,
			"macaddr() argument must be at least 6 bytes in size")
	case "socket_cookie":
		c.cookie(n, t)
	default:
		c.library(n, name, t)
	}
}

func (c *useChecker) buf(n *syntax.Call, t Type) {
	switch t.Kind {
	case Integer, String, Pointer, Array:
	default:
		c.fail(n, "buf() expects an integer, string, or array argument but saw "+t.Kind.String())
	}
	if c.maxString > math.MaxUint32 {
		c.fail(n, "BPFTRACE_MAX_STRLEN too large to use on buffer ("+
			strconv.FormatUint(c.maxString, 10)+" > 4294967295)")
	}
	if len(n.Args) == 1 {
		if t.Kind != Array {
			c.fail(n, "buf() expects a length argument for non-array type "+t.Kind.String())
		}
	} else if i, ok := n.Args[1].(*syntax.Integer); ok && i.Negative {
		c.fail(n, "bufcannot use negative length ("+fold.Decimal(i)+")")
	}
}

func (c *useChecker) ntop(n *syntax.Call) {
	t := c.types.at(n.Args[len(n.Args)-1])
	if len(n.Args) == 2 {
		c.argument(n, 0, funcs.Arg{Kind: funcs.Integer})
	}
	switch t.Kind {
	case Integer:
	case String, Array:
		if t.Size != 4 && t.Size != 16 {
			c.fail(n, "ntop() argument must be 4 or 16 bytes in size")
		}
	default:
		c.fail(n, "ntop() expects an integer or array argument, got "+t.Kind.String())
	}
}

func (c *useChecker) cookie(n *syntax.Call, t Type) {
	got := t.Kind.String()
	if t.Kind == Pointer && t.Elem.Kind == C {
		if t.Elem.Name == "struct sock" {
			return
		}
		got = "'" + t.Elem.Name + " *'"
	}
	c.fail(n, "socket_cookie() only supports 'struct sock *' as the argument ("+got+" provided)")
}

func (c *useChecker) length(n *syntax.Call, t Type) {
	m, isMap := n.Args[0].(*syntax.Map)
	switch {
	case isMap && c.scalar[m.Name]:
		c.fail(n, "call to len() expects a map with explicit keys (non-scalar map)")
	case !isMap && t.Kind != Kstack && t.Kind != Ustack:
		c.fail(n, "call to len() expects a map, ustack, or kstack")
	}
}

// library makes the checks that bpftrace makes in macros of its library.
func (c *useChecker) library(n *syntax.Call, name string, t Type) {
	switch name {
	case "has_key", "find", "delete":
		c.keyedUse(n, name)
	case "comm":
		if t.Kind != Integer {
			c.fail(n, "Only integer supported for comm()'s pid")
		}
	case "signal", "signal_thread":
		c.signal(n, name, t)
	case "override":
		switch {
		case c.probe == nil || !rowOf(name).In(c.probe.Points[0].Provider):
			c.fail(n, "override() can only be used inside kprobes")
		case !c.safe(n, name):
		case t.Kind != Integer:
			c.fail(n, "override() only supports int arguments ("+t.Kind.String()+" provided)")
		}
	case "write_user":
		c.safe(n, name)
	case "strlen", "strcap", "strstr":
		for _, a := range n.Args {
			c.likeString(n, c.types.at(a))
		}
	}
}

// safe reports whether a function of the library may be called, which those that change the
// system may not without the option.
func (c *useChecker) safe(n *syntax.Call, name string) bool {
	if rowOf(name).Unsafe && !c.unsafe {
		c.fail(n, name+"() is unsafe. To use you need the --unsafe flag")
		return false
	}
	return true
}

func (c *useChecker) likeString(n *syntax.Call, t Type) {
	char := func(e Type) bool { return e.Kind == Integer && e.Size == 1 && e.Signed }
	switch t.Kind {
	case String:
	case Array:
		if !char(*t.Elem) {
			c.fail(n, "string-like arrays must contain a char-like type")
		}
	case Pointer:
		if !char(*t.Elem) {
			c.fail(n, "string-like pointers must point to a char-like type")
		}
	default:
		c.fail(n, "string-like values must be either strings, arrays or pointers")
	}
}

func (c *useChecker) keyedUse(n *syntax.Call, name string) {
	m, ok := n.Args[0].(*syntax.Map)
	if !ok {
		c.fail(n, "Call to "+name+"() has arguments that do not match any definition.")
		return
	}
	said := map[string]string{
		"has_key": "has_key()", "find": "find", "delete": "delete() with two arguments",
	}[name]
	if len(n.Args) > 1 && c.scalar[m.Name] {
		c.fail(n, "call to "+said+" expects a map with explicit keys (non-scalar map)")
	} else if len(n.Args) == 1 && !c.scalar[m.Name] {
		c.fail(n, "call to delete() with a single argument expects a map without explicit keys "+
			"(scalar map)")
	}
}

func (c *useChecker) signal(n *syntax.Call, name string, t Type) {
	provider := ""
	if c.probe != nil {
		provider = c.probe.Points[0].Provider
	}
	i, isInt := n.Args[0].(*syntax.Integer)
	s, isText := n.Args[0].(*syntax.String)
	switch {
	case !rowOf(name).In(provider):
		c.fail(n, name+"() can not be used for this probetype "+provider)
	case !c.safe(n, name):
	case isText:
		c.signalNumber(n, s)
	case isInt && (i.Negative || i.Value < 1 || i.Value > 64):
		c.fail(n, name+"() accepts a string literal or an integer between 1 and 64 (inclusive)")
	case fold.Literal(n.Args[0]) && !isInt:
		c.fail(n, name+"() accepts a string literal or a positive integer")
	case t.Kind != Integer:
		c.fail(n, name+"() accepts a string literal or an integer")
	}
}

func (c *useChecker) print(n *syntax.Call) {
	if m, ok := n.Args[0].(*syntax.Map); ok {
		if c.loops > 0 {
			c.warn(n, "Due to it's asynchronous nature using 'print()' in a loop can lead to "+
				"unexpected behavior. The map will likely be updated before the runtime can 'print' it.")
		}
		if c.types.at(valueOf(m.Name)).Kind == Stats && len(n.Args) > 1 {
			c.warn(n, "print()'s top and div arguments are ignored when used on stats() maps.")
		}
		return
	}
	switch t := c.types.at(n.Args[0]); {
	case t.manyKeys():
		c.fail(n, "Map type "+t.String()+
			" cannot print the value of individual keys. You must print the whole map.")
	case t.Kind == None || t.Kind == TimestampMode || t.Context && !t.Args:
		c.fail(n, t.String()+" type passed to print() is not printable")
	case len(n.Args) != 1:
		c.fail(n, "Non-map print() only takes 1 argument, "+strconv.Itoa(len(n.Args))+" found")
	}
}
