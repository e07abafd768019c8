package types

import (
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/script/internal/funcs"
	"github.com/borescope/borescope/probe/script/syntax"
)

// functions collects the script's own functions. Here they can be called, unlike in bpftrace
// 0.26.1. Two functions of one name are refused, and so is recursion, for which the stack has
// no room.
func (c *checker) functions() {
	c.own = map[string]*syntax.Func{}
	for _, d := range c.file.Decls {
		f, ok := d.(*syntax.Func)
		if !ok {
			continue
		}
		if was := c.own[f.Name]; was != nil {
			e := c.fail(f, "Redefinition of function: "+f.Name)
			e.Notes = []syntax.Note{{Loc: was.Loc, Msg: "This is the original definition."}}
			continue
		}
		c.own[f.Name] = f
	}
	done := map[*syntax.Func]bool{}
	for _, d := range c.file.Decls {
		if f, ok := d.(*syntax.Func); ok {
			c.callees(f, nil, done)
		}
	}
}

// mostCalls is the largest depth of nested calls of functions.
const mostCalls = 100

// callees checks the calls of a function, and those of the functions that it calls.
func (c *checker) callees(f *syntax.Func, chain []string, done map[*syntax.Func]bool) {
	if done[f] {
		return
	}
	chain = append(chain, f.Name)
	for n := range syntax.All(f.Body) {
		call, ok := n.(*syntax.Call)
		if !ok || c.own[call.Name] == nil {
			continue
		}
		for i, name := range chain {
			if name == call.Name {
				c.fail(call, "Recursive function call detected. Call chain: "+
					strings.Join(append(chain[i:len(chain):len(chain)], name), " > "))
				return
			}
		}
		if len(chain) == mostCalls {
			c.fail(call, "more than "+strconv.Itoa(mostCalls)+" functions call each other")
			return
		}
		c.callees(c.own[call.Name], chain, done)
	}
	done[f] = true
}

// param is a parameter of a function. A pointer parameter of a kernel function takes any
// pointer, since the script's author knows its target better.
type param struct {
	name    string
	t       Type
	pointer bool // it is a pointer parameter of a kernel function
}

// said returns the parameter's name as errors show it, "" if it has none.
func (p param) said() string {
	if p.name == "" {
		return ""
	}
	return " for argument `" + p.name + "`"
}

// foreign returns the prototype of a function of the kernel that a script may call by a name,
// nil if there is none. Names of the language mean the language's functions, whatever the
// kernel has under them, and static functions cannot be called.
func (c *checker) foreign(name string) *btf.FuncProto {
	if funcs.Of(name) != nil {
		return nil
	}
	f := c.sys.Func(name)
	if f == nil || f.Linkage == btf.StaticFunc {
		return nil
	}
	proto, _ := f.Type.(*btf.FuncProto)
	return proto
}

// paramsOf returns the parameters of a function of the script or of the kernel.
func (c *checker) paramsOf(name string) (list []param, ok bool) {
	if f := c.own[name]; f != nil {
		for _, a := range f.Args {
			list = append(list, param{a.Var.Name, c.types.at(a.Type), false})
		}
		return list, true
	}
	proto := c.foreign(name)
	if proto == nil {
		return nil, false
	}
	for _, p := range proto.Params {
		_, pointer := btf.UnderlyingType(p.Type).(*btf.Pointer)
		list = append(list, param{p.Name, FromBTF(p.Type), pointer})
	}
	return list, true
}

// external adds the rules of a call of a function of the script or of the kernel.
func (c *collector) external(n *syntax.Call) {
	if f := c.own[n.Name]; f != nil && f.Result != nil {
		c.s.same(n, f.Result)
		return
	}
	proto := c.foreign(n.Name)
	switch {
	case proto != nil:
	case c.sys.Func(n.Name) != nil:
		c.fail(n, "Unsupported function linkage: '"+n.Name+"'")
		return
	default:
		c.fail(n, "Unknown function: '"+n.Name+"'")
		return
	}
	c.s.set(n, FromBTF(proto.Return))
}

// arity returns the number of parameters of such a function.
func (c *checker) arity(name string) (n int, ok bool) {
	if f := c.own[name]; f != nil {
		return len(f.Args), true
	}
	if proto := c.foreign(name); proto != nil {
		return len(proto.Params), true
	}
	return 0, false
}

// castArguments casts the arguments of such a call: for kernel functions only integers, for
// the script's own functions all that can be cast.
func (c *checker) castArguments(n *syntax.Call) {
	if count, ok := c.arity(n.Name); !ok || count != len(n.Args) {
		return
	}
	params, _ := c.paramsOf(n.Name)
	for i, p := range params {
		t := c.types.at(n.Args[i])
		if c.own[n.Name] != nil || t.Kind == Integer && p.t.Kind == Integer {
			c.castTo(&n.Args[i], t, p.t)
		}
	}
}

// externalUse checks the arguments of such a call.
func (c *useChecker) externalUse(n *syntax.Call) {
	count, known := c.arity(n.Name)
	if !known {
		return
	}
	if count != len(n.Args) {
		c.fail(n, "Function `"+n.Name+"` requires "+strconv.Itoa(count)+
			" arguments, got only "+strconv.Itoa(len(n.Args)))
		return
	}
	params, _ := c.paramsOf(n.Name)
	ok := true
	var want []string
	for i, p := range params {
		t, got := p.t, c.types.at(n.Args[i])
		if p.pointer && got.Kind == Pointer {
			t = got
		}
		want = append(want, t.String())
		if t.Equal(got) {
			continue
		}
		ok = false
		c.fail(n.Args[i], "Expected "+t.String()+p.said()+" got "+got.String())
	}
	if !ok {
		c.fail(n, "Function `"+n.Name+"` requires arguments ("+strings.Join(want, ", ")+")")
	}
}
