package lower

import (
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
)

// builtins are the script's builtins that programs have, by their names there.
var builtins = map[string]string{
	"pid": "pid", "tid": "tid", "uid": "uid", "gid": "gid", "comm": "comm", "cpu": "cpu",
	"nsecs": "nsecs_boot", "elapsed": "elapsed", "jiffies": "jiffies", "rand": "rand",
	"cgroup": "cgroup", "ncpus": "ncpus", "numaid": "numa", "usermode": "usermode", "ppid": "ppid",
}

func (l *lowerer) builtin(x *syntax.Builtin) *ir.Expr {
	if name, ok := builtins[x.Name]; ok {
		e := ir.NewBuiltin(name)
		if t := l.of(x); t.Scalar() {
			return castTo(t, e)
		}
		return e
	}
	if n, ok := argument(x.Name); ok {
		return l.argument(x, n)
	}
	switch x.Name {
	case "retval":
		return l.loaded(x, &ir.Expr{Op: ir.OpRet})
	case "args":
		return l.args(x)
	case "curtask":
		return l.loaded(x, ir.NewBuiltin("curtask"))
	case "func":
		return l.function(x)
	case "kstack", "ustack", "dw_ustack":
		return l.stack(x)
	case "username":
		return castTo(ir.Uint64Type(), ir.NewBuiltin("uid"))
	case "pcomm", "leader_comm", "leader_tid":
		return l.taskMember(x, x.Name, ir.NewBuiltin("curtask"))
	case "ctx":
		return castTo(l.of(x), ir.NewBuiltin("ctx"))
	case "cpid":
		return constant(l.of(x), int64(l.o.Child))
	case "has_cpid":
		n := int64(0)
		if l.o.Child != 0 {
			n = 1
		}
		return constant(l.of(x), n)
	case "default_str_length":
		return constant(l.of(x), int64(l.o.MaxText))
	}
	return l.missing(x, x.Name)
}

// argument returns an argument as a number, whatever its type: from the register in which
// functions are passed it, or that of the event.
func (l *lowerer) argument(n syntax.Node, i int) *ir.Expr {
	e := &ir.Expr{Op: ir.OpArg, Int: int64(i)}
	switch p := l.point.Provider; {
	case p == "uprobe" && l.o.OwnRegisters:
	case p == "kprobe" || p == "uprobe":
		list := argumentRegisters[l.o.Arch]
		if i >= len(list) {
			return l.missing(n, "this argument")
		}
		return &ir.Expr{Op: ir.OpReg, Int: list[i]}
	}
	return castTo(ir.Uint64Type(), e)
}

// argumentRegisters are the registers of the C ABI's arguments, by DWARF's numbers (System V ABI,
// AMD64 supplement, 3.2.3 and figure 3.36; Procedure Call Standard for the Arm 64-bit
// Architecture, 6.4.2).
var argumentRegisters = map[string][]int64{
	"amd64": {5, 4, 1, 2, 8, 9},
	"arm64": {0, 1, 2, 3, 4, 5, 6, 7},
}

// registers are bpftrace's names of registers, by DWARF's numbers.
var registers = map[string]map[string]int64{
	"amd64": {
		"ax": 0, "dx": 1, "cx": 2, "bx": 3, "si": 4, "di": 5, "bp": 6, "sp": 7, "r8": 8, "r9": 9,
		"r10": 10, "r11": 11, "r12": 12, "r13": 13, "r14": 14, "r15": 15, "ip": 16,
	},
	"arm64": {
		"r0": 0, "r1": 1, "r2": 2, "r3": 3, "r4": 4, "r5": 5, "r6": 6, "r7": 7, "r8": 8, "r9": 9,
		"r10": 10, "r11": 11, "r12": 12, "r13": 13, "r14": 14, "r15": 15, "r16": 16, "r17": 17,
		"r18": 18, "r19": 19, "r20": 20, "r21": 21, "r22": 22, "r23": 23, "r24": 24, "r25": 25,
		"r26": 26, "r27": 27, "r28": 28, "r29": 29, "r30": 30, "sp": 31, "pc": 32,
	},
}

func register(arch, name string) (int64, bool) {
	n, ok := registers[arch][name]
	return n, ok
}
