package types

import (
	"strconv"

	"github.com/borescope/borescope/probe/script/syntax"
)

// literals checks the literals that functions require.
func (c *callChecker) literals(n *syntax.Call, name string) {
	switch name {
	case "hist":
		c.hist(n)
	case "lhist":
		c.lhist(n)
	case "tseries":
		c.tseries(n)
	case "reg":
		if s, ok := n.Args[0].(*syntax.String); ok && !register(c.arch, s.Value) {
			c.fail(n, "'"+s.Value+"' is not a valid register on this architecture ("+
				machine(c.arch)+")")
		}
	case "debugf":
		c.warn(n, "The debugf() builtin is not recommended for production use. For more "+
			"information see bpf_trace_printk in bpf-helpers(7).")
		if len(n.Args) > 4 {
			c.fail(n, "cannot use more than 3 conversion specifiers")
		}
	case "path":
		c.path(n)
	case "strncmp":
		if _, ok := natural(n.Args[2]); !ok {
			c.fail(n, "Builtin strncmp requires a non-negative literal")
		}
	case "pid", "tid":
		if len(n.Args) == 1 {
			if _, ok := n.Args[0].(*syntax.Identifier); !ok {
				c.fail(n, name+"() only supports curr_ns and init as the argument")
			}
		}
	case "uaddr":
		s, ok := n.Args[0].(*syntax.String)
		if !ok {
			c.fail(n, n.Name+"() expects a string literal as the first argument")
		} else if !symbolName(s.Value) {
			c.fail(n, n.Name+"() expects a string that is a valid symbol (^[a-zA-Z0-9./_-]+$) as "+
				"input (\""+s.Value+"\" provided)")
		}
	}
}

func (c *callChecker) hist(n *syntax.Call) {
	if len(n.Args) == 3 {
		n.Args = append(n.Args, &syntax.Integer{Loc: n.Loc})
		return
	}
	if bits, ok := natural(n.Args[3]); ok && bits > 5 {
		c.fail(n, "hist: bits "+strconv.FormatUint(bits, 10)+" must be 0..5")
	}
}

func (c *callChecker) lhist(n *syntax.Call) {
	from, ok1 := natural(n.Args[3])
	to, ok2 := natural(n.Args[4])
	step, ok3 := natural(n.Args[5])
	format := func(v uint64) string { return strconv.FormatUint(v, 10) }
	switch {
	case !ok1:
		c.fail(n, "lhist: invalid min value (must be non-negative literal)")
		return
	case !ok2:
		c.fail(n, "lhist: invalid max value (must be non-negative literal)")
		return
	case !ok3:
		c.fail(n, "lhist: invalid step value")
		return
	}
	if step == 0 {
		c.fail(n, "lhist() step must be >= 1 (0 provided)")
	} else if buckets := int32((to - from) / step); buckets > 1000 {
		c.fail(n, "lhist() too many buckets, must be <= 1000 (would need "+
			strconv.Itoa(int(buckets))+")")
	}
	if from > to {
		c.fail(n, "lhist() min must be less than max (provided min "+format(from)+" and max "+
			format(to)+")")
	}
	if to-from < step {
		c.fail(n, "lhist() step is too large for the given range (provided step "+format(step)+
			" for range "+format(to-from)+")")
	}
}

func (c *callChecker) tseries(n *syntax.Call) {
	interval, ok1 := natural(n.Args[3])
	number, ok2 := natural(n.Args[4])
	switch {
	case !ok1:
		c.fail(n, "tseries: invalid interval_ns value (must be non-negative literal)")
		return
	case !ok2:
		c.fail(n, "tseries: invalid num_intervals value (must be non-negative literal)")
		return
	case interval == 0:
		c.fail(n, "tseries() interval_ns must be >= 1 (0 provided)")
		return
	case number == 0:
		c.fail(n, "tseries() num_intervals must be >= 1 (0 provided)")
		return
	case number > 1_000_000:
		c.fail(n, "tseries() num_intervals must be < 1000000 ("+
			strconv.FormatUint(number, 10)+" provided)")
	}
	if len(n.Args) < 6 {
		return
	}
	if s, ok := n.Args[5].(*syntax.String); ok {
		switch s.Value {
		case "avg", "max", "min", "sum":
		default:
			c.fail(n, "tseries() expects one of the following aggregation functions: avg, max, min, "+
				"sum (\""+s.Value+"\" provided)")
		}
	}
}

func (c *callChecker) path(n *syntax.Call) {
	if len(n.Args) == 2 {
		if _, ok := natural(n.Args[1]); !ok {
			c.fail(n, "path: invalid size value, need non-negative literal")
		}
	}
	if c.probe == nil {
		return
	}
	if !rowOf("path").In(c.probe.Points[0].Provider) {
		c.fail(n, "The path function can only be used with 'fentry', 'fexit', 'iter' probes")
	}
}

// register reports whether a machine has a register of a name.
func register(arch, name string) bool {
	for _, r := range registerNames[arch] {
		if r == name {
			return true
		}
	}
	return len(registerNames[arch]) == 0
}

// registerNames are the registers that reg accepts. On other machines than these it accepts
// all names.
var registerNames = map[string][]string{
	"amd64": {
		"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si",
		"di", "orig_ax", "ip", "cs", "flags", "sp", "ss",
	},
	"arm64": {
		"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13",
		"r14", "r15", "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26",
		"r27", "r28", "r29", "r30", "sp", "pc", "pstate",
	},
}
