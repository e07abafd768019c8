package types

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/internal/uapi"
	"github.com/borescope/borescope/probe/script/internal/fold"
	"github.com/borescope/borescope/probe/script/internal/funcs"
	"github.com/borescope/borescope/probe/script/syntax"
)

const defaultArch = runtime.GOARCH

// builtinName returns a builtin's name without the prefix that it has in bpftrace's library.
func builtinName(name string) string { return funcs.Plain(name) }

// rowOf returns what the language says of a name, an empty row if it does not have it.
func rowOf(name string) *funcs.Row {
	if r := funcs.Of(name); r != nil {
		return r
	}
	return &funcs.Row{}
}

// Library reports whether bpftrace's library has a macro of a name. Check implements these
// itself. A script's own macro of the name is tried first (see syntax.ExpandOptions).
func Library(name string) bool { return name == builtinName(name) && rowOf(name).Library }

// definitions are the C definitions of a script.
type definitions struct {
	types  map[string]btf.Type
	values map[string]enumerator
	enums  map[string]*btf.Enum
	own    map[btf.Type]bool // structs and unions: true if declared in the script, else only used
}

type enumerator struct {
	enum  *btf.Enum
	value uint64
}

// mostC is the number of bytes of C definitions that are parsed, as long as a script.
const mostC = 256 << 10

// define parses the C definitions of a script.
func (c *checker) define() {
	c.defs = definitions{
		map[string]btf.Type{}, map[string]enumerator{}, map[string]*btf.Enum{}, map[btf.Type]bool{},
	}
	var b strings.Builder
	var first *syntax.C
	for _, d := range c.file.Decls {
		if d, ok := d.(*syntax.C); ok && !d.Skipped && !strings.HasPrefix(d.Text, "#") {
			b.WriteString(d.Text + "\n")
			if first == nil {
				first = d
			}
		}
	}
	switch {
	case first == nil:
		return
	case b.Len() > mostC:
		c.fail(first, "the C definitions, with those of imports, have more than "+
			strconv.Itoa(mostC)+" bytes: use fewer")
		return
	}
	decls, err := cdecl.Parse(first.In.Name, []byte(b.String()), &cdecl.Options{
		Arch: c.arch, Resolve: c.resolveC,
	})
	if err != nil {
		c.fail(first, err.Error())
		return
	}
	for _, v := range decls.Constants {
		c.defs.values[v.Name] = enumerator{v.Enum, v.Value.Bits}
	}
	for _, t := range decls.Types {
		name := t.Name
		if t.Kind != cdecl.Typedef {
			name = t.Kind.String() + " " + name
		}
		c.defs.types[name] = t.Type
		c.owns(t.Type, 0)
		if e, ok := btf.UnderlyingType(t.Type).(*btf.Enum); ok {
			c.addEnum(e)
		}
	}
}

func (c *checker) addEnum(e *btf.Enum) {
	c.defs.enums[e.Name] = e
	for _, v := range e.Values {
		c.defs.values[v.Name] = enumerator{e, v.Value}
	}
}

// resolveC finds a type for a C declaration. The result is nil if there is none, and
// cdecl.Parse then handles it.
func (c *checker) resolveC(k cdecl.Kind, name string) (btf.Type, error) {
	if k != cdecl.Typedef {
		name = k.String() + " " + name
	}
	t := c.sys.Type(name)
	if t != nil {
		c.defs.own[btf.UnderlyingType(t)] = false
	}
	return t, nil
}

// owns records a struct or union, and those in it, as declared by the script.
func (c *checker) owns(t btf.Type, depth int) {
	t = btf.UnderlyingType(t)
	if a, ok := t.(*btf.Array); ok && depth < deepest {
		c.owns(a.Type, depth+1)
	}
	if _, known := c.defs.own[t]; known || members(t) == nil || depth == deepest {
		return
	}
	c.defs.own[t] = true
	for _, m := range members(t) {
		c.owns(m.Type, depth+1)
	}
}

// memberType returns the type of a member.
func (c *checker) memberType(of btf.Type, m *btf.Member) Type {
	if c.defs.own[of] {
		return fromC(m.Type)
	}
	return FromBTF(m.Type)
}

// kernelType finds a type of the kernel, which the script may declare, by its name.
func (c *checker) kernelType(name string) btf.Type {
	if t := c.defs.types[name]; t != nil {
		return t
	}
	return c.sys.Type(name)
}

// enumerator finds an enumerator by its name.
func (c *checker) enumerator(name string) (enumerator, bool) {
	if e, ok := c.defs.values[name]; ok {
		return e, true
	}
	if e, v := c.sys.Enumerator(name); e != nil {
		c.defs.enums[e.Name] = e
		return enumerator{e, v}, true
	}
	return enumerator{}, false
}

// builtins checks builtins against the probes that use them, and replaces those that are
// constant there.
func (c *checker) builtins() {
	c.top(func(top syntax.Node) {
		p, _ := top.(*syntax.Probe)
		c.builtinsOfLoops(top)
		syntax.Rewrite(top, func(n syntax.Node) syntax.Node {
			switch n := n.(type) {
			case *syntax.Builtin:
				return c.builtin(n, n.Name, p)
			case *syntax.Identifier:
				return c.builtin(n, n.Name, p)
			case *syntax.Call:
				return c.constantCall(n, p)
			}
			return nil
		})
	})
}

// builtinsOfLoops refuses builtins in the bodies of for loops.
func (c *checker) builtinsOfLoops(top syntax.Node) {
	check := func(n syntax.Node) bool {
		name := ""
		switch n := n.(type) {
		case *syntax.Builtin:
			name = n.Name
		case *syntax.Identifier:
			name = n.Name
		}
		if argument(name) {
			c.fail(n, "'"+name+"' builtin is not allowed in a for-loop")
		} else if builtinName(name) == "retval" {
			c.fail(n, "'__builtin_retval' builtin is not allowed in a for-loop")
		}
		return true
	}
	var outside func(n syntax.Node) bool
	outside = func(n syntax.Node) bool {
		f, ok := n.(*syntax.For)
		if ok {
			syntax.Walk(f.Over, outside)
			syntax.Walk(f.Body, check) // also the loops in it
		}
		return !ok
	}
	syntax.Walk(top, outside)
}

// argument reports whether a name is arg0, arg1 and so on.
func argument(name string) bool {
	n, ok := strings.CutPrefix(name, "arg")
	if !ok || n == "" || len(n) > 3 {
		return false
	}
	_, err := strconv.ParseUint(n, 10, 16)
	return err == nil
}

// constantCall returns the value of a call that is known before types are, or nil.
func (c *checker) constantCall(n *syntax.Call, p *syntax.Probe) syntax.Node {
	switch name := builtinName(n.Name); {
	case len(n.Args) == 0 && ofLibrary(name):
		if r := c.builtin(n, name, p); r != nil {
			return r
		}
	case name == "is_literal" && len(n.Args) == 1:
		return &syntax.Boolean{Loc: *n.Args[0].At(), Value: fold.Literal(n.Args[0])}
	case name == "signal_num" && len(n.Args) == 1:
		if s, ok := n.Args[0].(*syntax.String); ok {
			return c.signalNumber(n, s)
		}
	case (name == "kfunc_exist" || name == "kfunc_allowed") && len(n.Args) == 1:
		s, ok := n.Args[0].(*syntax.String)
		if !ok {
			c.fail(n, name+"() accepts a string literal only")
			return nil
		}
		return &syntax.Boolean{Loc: s.Loc, Value: c.sys.Func(s.Value) != nil}
	}
	return nil
}

func (c *checker) signalNumber(n *syntax.Call, s *syntax.String) syntax.Node {
	name := strings.ToUpper(s.Value)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	v, ok := uapi.Lookup(c.arch, name)
	if !ok || v < 1 {
		c.fail(n, "Invalid string for signal: "+s.Value)
		return nil
	}
	return &syntax.Integer{Loc: s.Loc, Value: uint64(v)}
}

// registers returns the number of arguments that a machine passes in registers.
func registers(arch string) int {
	if arch == "amd64" {
		return 6
	}
	return 8
}

// machine returns bpftrace's name of a machine.
func machine(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "ppc64le":
		return "powerpc64"
	}
	return arch
}

// ofLibrary reports whether a builtin that needs no parentheses is from bpftrace's library.
func ofLibrary(name string) bool { return rowOf(name).Bare && rowOf(name).Library }

// builtin checks a builtin. It returns the node's replacement, or nil.
func (c *checker) builtin(n syntax.Node, name string, p *syntax.Probe) syntax.Node {
	canonical := builtinName(name)
	inLibrary := ofLibrary(canonical)
	if _, isName := n.(*syntax.Identifier); isName && !inLibrary && !argument(name) {
		return c.constant(n.(*syntax.Identifier))
	}
	l := *n.At()
	outside := func() bool {
		if p == nil {
			full := name
			if inLibrary {
				full = "__builtin_" + canonical
			}
			c.fail(n, "Builtin "+full+" not supported outside probe")
		}
		return p == nil
	}
	switch canonical {
	case "arch":
		return &syntax.String{Loc: l, Value: machine(c.arch)}
	case "safe_mode":
		return &syntax.Boolean{Loc: l, Value: !c.unsafe}
	case "probe", "probetype":
		if p == nil {
			c.fail(n, "__builtin_"+canonical+" can only be used inside of a probe.")
			return nil
		}
		a := p.Points[0]
		if canonical == "probe" {
			return &syntax.String{Loc: l, Value: pointName(a)}
		}
		return &syntax.String{Loc: l, Value: probeType(a)}
	case "ctx", "func", "args", "retval":
		if outside() {
			return nil
		}
		c.needsProbe(n, canonical, p.Points[0])
	case "usermode":
		if c.arch != "amd64" {
			c.fail(n, "'usermode' builtin is only supported on x86_64")
		}
		if p != nil && !hasRegisters(p.Points[0]) {
			v := uint64(0)
			if special(p.Points[0]) {
				v = 1
			}
			return &syntax.Integer{Loc: l, Value: v}
		}
	}
	if argument(name) {
		if outside() {
			return nil
		}
		c.argument(n, name, p.Points[0])
	}
	return &syntax.Builtin{Loc: l, Name: canonical}
}

// constant returns the value of a name that a header of the kernel defines, or nil.
func (c *checker) constant(n *syntax.Identifier) syntax.Node {
	if _, ok := c.enumerator(n.Name); ok {
		return nil
	}
	v, ok := uapi.Lookup(c.arch, n.Name)
	if !ok {
		return nil
	}
	return fold.Integer(n.Loc, v)
}

func (c *checker) argument(n syntax.Node, name string, a *syntax.AttachPoint) {
	number, _ := strconv.Atoi(name[len("arg"):])
	switch a.Provider {
	case "kprobe", "uprobe", "usdt", "rawtracepoint":
	default:
		c.fail(n, "The "+name+" builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes")
		return
	}
	if a.Provider != "usdt" && number >= registers(c.arch) {
		c.fail(n, machine(c.arch)+" doesn't support "+name)
	}
}

// needsProbe checks a builtin that only some probes have.
func (c *checker) needsProbe(n syntax.Node, name string, a *syntax.AttachPoint) {
	p, in := a.Provider, rowOf(name).In(a.Provider)
	switch {
	case in && name == "func":
		if p != "kprobe" && p != "uprobe" && !c.sys.Has("get_func_ip") {
			c.fail(n, "BPF_FUNC_get_func_ip not available for your kernel version. "+
				"Consider using the 'probe' builtin instead.")
		}
	case in && name == "args":
		if (p == "fentry" || p == "fexit") && a.Target == "bpf" {
			c.fail(n, "The args builtin cannot be used for 'fentry/fexit:bpf' probes")
		}
	case in:
	case name == "ctx" && p == "tracepoint":
		c.fail(n, "Use args instead of ctx in tracepoint")
	case name == "args":
		c.fail(n, "The args builtin can only be used with tracepoint, rawtracepoint, "+
			"fentry/fexit, and uprobe probes ("+p+" used here)")
	case name == "retval":
		said := ""
		if p == "tracepoint" {
			said = " (try to use args.ret instead)"
		}
		c.fail(n, "The retval builtin can only be used with 'kretprobe' and 'uretprobe' and "+
			"'fentry' probes"+said)
	default:
		c.fail(n, "The "+name+" builtin can not be used with '"+p+"' probes")
	}
}
