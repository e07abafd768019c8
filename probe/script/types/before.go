package types

import (
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/internal/flow"
	"github.com/borescope/borescope/probe/script/syntax"
)

// before makes the checks that need no types: variables, numbers of arguments, literals.
func (c *checker) before() {
	c.top(func(n syntax.Node) { flow.Variables(n, c.say) })
	for n := range syntax.All(c.file) {
		where, x := "", syntax.Node(nil)
		switch n := n.(type) {
		case *syntax.Offsetof:
			where, x = "offsetof", n.X
		case *syntax.Sizeof:
			where, x = "sizeof", n.X
		case *syntax.TypeOf:
			where, x = "typeof or typeinfo", n.X
		}
		if x == nil {
			continue
		}
		for in := range syntax.All(x) {
			if a, ok := in.(*syntax.Assign); ok {
				if _, isMap := a.Target.(*syntax.MapAccess); isMap {
					c.fail(a, "Map assignments not allowed inside of "+where)
				}
			}
		}
	}
	c.top(func(n syntax.Node) {
		p, _ := n.(*syntax.Probe)
		(&callChecker{checker: c, probe: p}).visit(n)
	})
}

// callChecker makes the checks of calls that need no types.
type callChecker struct {
	*checker
	probe *syntax.Probe
	call  string
	arg   int
}

func (c *callChecker) visit(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if c.full() {
			return false
		}
		switch n := n.(type) {
		case *syntax.Call:
			c.check(n)
			return false
		case *syntax.Identifier:
			c.identifier(n)
		case *syntax.String:
			c.text(n)
		case *syntax.Unroll:
			c.unroll(n)
		}
		return true
	})
}

func (c *callChecker) identifier(n *syntax.Identifier) {
	switch c.call {
	case "pid", "tid":
		if n.Name != "curr_ns" && n.Name != "init" {
			c.fail(n, "Invalid PID namespace mode: "+n.Name+" (expects: curr_ns or init)")
		}
	case "signal":
		if n.Name != "current_pid" && n.Name != "current_tid" {
			c.fail(n, "Invalid signal target: "+n.Name+" (expects: current_pid or current_tid)")
		}
	}
}

func (c *callChecker) text(n *syntax.String) {
	switch c.call {
	case "printf", "errorf", "warnf":
		if c.arg == 0 {
			return
		}
	case "cgroupid":
		return
	}
	if uint64(len(n.Value)) > c.maxString-1 {
		c.fail(n, "String is too long (over "+strconv.FormatUint(c.maxString, 10)+" bytes): "+
			n.Value[:min(len(n.Value), mostText)])
	}
}

func (c *callChecker) unroll(n *syntax.Unroll) {
	i, ok := n.Count.(*syntax.Integer)
	switch {
	case !ok || i.Negative:
		c.fail(n, "invalid unroll value")
	case i.Value > 100:
		c.fail(n, "unroll maximum value is 100")
	case i.Value < 1:
		c.fail(n, "unroll minimum value is 1")
	}
}

// counts are the least and the largest number of arguments of functions, including those that
// sugar adds.
var counts = map[string][2]int{
	"dw_ustack": {0, 2}, "uaddr": {1, 1}, "avg": {3, 3}, "bswap": {1, 1}, "buf": {1, 2},
	"cat": {1, 128}, "cgroup_path": {1, 2}, "cgroupid": {1, 1}, "clear": {1, 1}, "count": {2, 2},
	"debugf": {1, 128}, "errorf": {1, 128}, "exit": {0, 1}, "fail": {1, 128}, "hist": {3, 4},
	"join": {1, 2}, "kaddr": {1, 1}, "kptr": {1, 1}, "kstack": {0, 2}, "ksym": {1, 1},
	"lhist": {6, 6}, "macaddr": {1, 1}, "max": {3, 3}, "min": {3, 3}, "nsecs": {0, 1},
	"ntop": {1, 2}, "offsetof": {2, 2}, "path": {1, 2}, "percpu_kaddr": {1, 2}, "pid": {0, 1},
	"print": {1, 3}, "printf": {1, 128}, "pton": {1, 1}, "reg": {1, 1}, "sizeof": {1, 1},
	"skboutput": {4, 4}, "socket_cookie": {1, 1}, "stack_len": {1, 1}, "stats": {3, 3},
	"str": {1, 2}, "strftime": {2, 2}, "strncmp": {3, 3}, "sum": {3, 3}, "system": {1, 128},
	"tid": {0, 1}, "time": {0, 1}, "tseries": {5, 6}, "unwatch": {1, 1}, "uptr": {1, 1},
	"ustack": {0, 2}, "usym": {1, 1}, "warnf": {1, 128}, "zero": {1, 1},
}

// libraryCounts are the same for the functions that are macros in bpftrace's library.
var libraryCounts = map[string][2]int{
	"comm": {1, 1}, "delete": {1, 2}, "find": {3, 3}, "has_key": {2, 2}, "len": {1, 1},
	"override": {1, 1}, "write_user": {3, 3}, "signal": {1, 1}, "signal_thread": {1, 1},
	"memcmp": {3, 3}, "usdt_arg": {1, 1}, "strlen": {1, 1}, "strcap": {1, 1}, "strstr": {2, 2},
	"strerror": {1, 1}, "signal_name": {1, 1}, "syscall_name": {1, 1}, "assert_str": {1, 1},
	"ppid": {1, 1}, "pcomm": {1, 1}, "leader_tid": {1, 1}, "leader_comm": {1, 1},
	"is_str": {1, 1}, "is_ptr": {1, 1}, "is_array": {1, 1}, "is_integer": {1, 1},
	"is_unsigned_integer": {1, 1}, "is_literal": {1, 1},
}

func (c *callChecker) check(n *syntax.Call) {
	name := builtinName(n.Name)
	if !c.unsafe && name == "system" {
		c.fail(n, "system() is an unsafe function being used in safe mode")
	}
	if c.probe != nil {
		for _, a := range c.probe.Points {
			if !available(a, n.Name) {
				c.fail(n, n.Name+" can not be used with \""+a.Provider+"\" probes")
			}
		}
	}
	if want, ok := libraryCounts[name]; ok && (len(n.Args) < want[0] || len(n.Args) > want[1]) {
		c.fail(n, "Call to "+name+"() has arguments that do not match any definition.")
		return
	}
	if want, ok := counts[name]; ok && !c.count(n, want[0], want[1]) {
		return
	}
	outer := c.call
	c.call = name
	for i, a := range n.Args {
		c.arg = i
		c.visit(a)
	}
	c.call, c.arg = outer, -1
	if len(n.Args) > 0 && (name == "clear" || name == "zero") {
		if _, ok := n.Args[0].(*syntax.Map); !ok {
			c.fail(n.Args[0], name+"() expects a map argument")
		}
	}
	c.literals(n, name)
}

// count checks the number of arguments of a call, and reports whether it is right.
func (c *callChecker) count(n *syntax.Call, least, most int) bool {
	extra := c.injected[n]
	got := len(n.Args) - extra
	least, most = least-extra, most-extra
	said := " (" + strconv.Itoa(got) + " provided)"
	switch {
	case got >= least && got <= most:
		return true
	case least == most && most == 0, got > most && most == 0:
		c.fail(n, n.Name+"() requires no arguments"+said)
	case least == most && most == 1:
		c.fail(n, n.Name+"() requires one argument"+said)
	case least == most:
		c.fail(n, n.Name+"() requires "+strconv.Itoa(least)+" arguments"+said)
	case got < least && least == 1:
		c.fail(n, n.Name+"() requires at least one argument"+said)
	case got < least:
		c.fail(n, n.Name+"() requires at least "+strconv.Itoa(least)+" arguments"+said)
	case most == 1:
		c.fail(n, n.Name+"() takes up to one argument"+said)
	default:
		c.fail(n, n.Name+"() takes up to "+strconv.Itoa(most)+" arguments"+said)
	}
	return false
}

// natural returns the value of an integer literal that is not negative.
func natural(x syntax.Expr) (uint64, bool) {
	i, ok := x.(*syntax.Integer)
	if !ok || i.Negative {
		return 0, false
	}
	return i.Value, true
}

func symbolName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"+
		"0123456789./_-") == ""
}
