package tool

import (
	"errors"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/sysnames"
)

// A kernel runs 32-bit programs beside its own, whose system calls have other numbers. The
// tracepoints of all system calls (raw_syscalls, and sys_enter and sys_exit as raw tracepoints)
// fire for them with these numbers. Those of group syscalls, one for each call, do not fire
// (arch_trace_is_compat_syscall, kernel/trace/trace_syscalls.c).

// tellsCompat returns nil if programs can tell the calls of 32-bit processes, as at replay,
// otherwise why not.
func (t *Tool) tellsCompat() error {
	if t.Replaying() || runtime.GOOS != "linux" {
		return nil
	}
	if compatArgs[runtime.GOARCH] == nil {
		return errors.New("they are not known on " + runtime.GOARCH)
	}
	return t.Env().Supports(feature.BTF)
}

// noteCompat prints, at the beginning of a run, what is missing of the calls of 32-bit
// processes. err is why the calls without tracepoints are not counted.
func (r *Run) noteCompat(err error) {
	if r.tool.compat == "" {
		return
	}
	if no := r.tool.tellsCompat(); no != nil {
		err = no
	}
	if err == nil {
		return
	}
	const format = "System calls of 32-bit processes %s: %s\n"
	if r.tool.json && !r.tool.NotesToStderr {
		r.tool.Stderr.Printf(format, r.tool.compat, oneLine(err))
	}
	r.Note(format, r.tool.compat, oneLine(err))
}

// Calls makes the keys under which a program counts system calls: their numbers with their
// ABI. They are of the tracepoints sys_enter and sys_exit of group raw_syscalls. Without BTF
// programs cannot tell the calls of 32-bit processes, and Run prints that.
type Calls struct {
	compat bool
	execs  *action.Hash[uint32, uint32]
}

// compatBit is set in the key of a call of the ABI sysnames.Compat. Numbers are smaller, but
// for -1, which stands for none and has all bits set.
const compatBit = 1 << 31

// Calls returns the keys for p, to which it adds an action where they need one.
func (t *Tool) Calls(p *action.Program) *Calls {
	t.compat = "are not told from others, and may be under other calls' names"
	k := &Calls{compat: t.tellsCompat() == nil}
	if k.compat && runtime.GOARCH == "arm64" {
		k.execs = action.NewLRU[uint32, uint32]("execs", 0)
		native, _ := sysnames.SyscallNumber("arm64", sysnames.Native, "execve")
		p.On(probe.Tracepoint{Group: "sched", Name: "sched_process_exec"}, func(c *action.Ctx) {
			k.execs.Set(c, c.TID(), native)
		})
	}
	return k
}

// Entered returns the key of the call that begins, at sys_enter. If name is not empty, it ends
// the action for calls with other names.
func (k *Calls) Entered(c *action.Ctx, name string) action.Int {
	id := c.Let(c.Field("id").As(ir.IntType(4, false)))
	if name == "" {
		return k.key(c, id)
	}
	// Whether the number is of that name in any ABI costs less than finding out the ABI.
	c.ReturnUnless(isOne(id, numbers(runtime.GOARCH, name)))
	key := k.key(c, id)
	c.ReturnUnless(isOne(key, keys(runtime.GOARCH, name)))
	return key
}

// Returned is Entered for the call that returns, at sys_exit. An exec returns as execve of the
// new program's ABI. An action that uses it does so for all returns of the threads that it is
// for.
func (k *Calls) Returned(c *action.Ctx, name string) action.Int {
	if k.execs == nil {
		return k.Entered(c, name)
	}
	// On arm64 an exec returns with the number that it was called by and the new program's
	// ABI, in which that may be another call.
	id := c.Let(c.Field("id").As(ir.IntType(4, false)))
	key := c.NewVar(k.key(c, id))
	c.If(isOne(id, numbers("arm64", "execve", "execveat")), func() {
		k.execs.Take(c, c.TID(), func(native action.Int) { key.Set(native) })
	})
	if name != "" {
		c.ReturnUnless(isOne(key.Int(), keys("arm64", name)))
	}
	return c.Let(key.Int())
}

// key adds the ABI to a number.
func (k *Calls) key(c *action.Ctx, id action.Int) action.Int {
	if !k.compat {
		return id
	}
	return c.Let(id.Or(c.Compat().Int().Shl(31)).As(ir.IntType(4, false)))
}

// isOne reports whether v is one of numbers.
func isOne(v action.Int, numbers []int) (is action.Bool) {
	for _, n := range numbers {
		is = is.Or(v.Eq(n))
	}
	return is
}

// Result returns the return value at sys_exit, an error as its negative number.
func (k *Calls) Result(c *action.Ctx) action.Int {
	ret := c.Field("ret")
	if !k.compat || runtime.GOARCH != "arm64" {
		return ret
	}
	// Here some kernels leave the upper half of a 32-bit result 0.
	return c.Let(action.Select(c.Compat(), ret.As(ir.IntType(4, true)).As(ir.Int64Type()), ret))
}

// numbers returns the numbers of calls by their names, in all ABIs of an architecture.
func numbers(arch string, names ...string) []int {
	all := keys(arch, names...)
	for i, key := range all {
		all[i] = key &^ compatBit
	}
	return all
}

// keys returns the keys of calls by their names, in all ABIs of an architecture.
func keys(arch string, names ...string) (keys []int) {
	for _, abi := range sysnames.ABIs(arch) {
		for _, name := range names {
			nr, ok := sysnames.SyscallNumber(arch, abi, name)
			if !ok {
				continue
			}
			if abi == sysnames.Compat {
				nr |= compatBit
			}
			keys = append(keys, nr)
		}
	}
	return keys
}

// CallName returns the name of a system call by its key in Calls.
func (r *Run) CallName(key uint32) string {
	nr, abi := int(int32(key)), sysnames.Native
	if nr < -1 {
		nr, abi = int(key&^compatBit), sysnames.Compat
	}
	return sysnames.Syscall(r.Arch(), abi, nr)
}

// CompatCall is a system call of a 32-bit process, where it begins.
type CompatCall struct {
	// Name is the call's name.
	Name string

	c    *action.Ctx
	regs action.Ptr
}

// compatArgs are the registers of a call's arguments, members of struct pt_regs.
var compatArgs = map[string][]string{
	"amd64": {"bx", "cx", "dx", "si", "di", "bp"},
	"arm64": {"orig_x0", "regs[1]", "regs[2]", "regs[3]", "regs[4]", "regs[5]"},
}

// Arg returns argument i, counted from 0, an unsigned number of 32 bits: pointers and what
// they point to have that size.
func (k CompatCall) Arg(i int) action.Int {
	args := compatArgs[runtime.GOARCH]
	if i >= len(args) {
		return k.c.Const(0)
	}
	return k.c.Let(k.regs.Member(args[i]).As(ir.IntType(4, false)))
}

// OnCompat adds actions to p for the system calls of 32-bit processes with one of these names,
// for which the kernel has no tracepoints of group syscalls: enter where they begin and, if it
// is not nil, leave where they return ret. enter is called once for each name, to record the
// action. leave may also run where other calls of 32-bit processes return.
//
// The actions are at the functions of these calls if the kernel has kprobes, so that other
// calls cost nothing, else where all calls begin and return. Without BTF programs cannot tell
// the calls of 32-bit processes: then OnCompat adds nothing, and Run prints that.
func (t *Tool) OnCompat(p *action.Program, names []string,
	enter func(c *action.Ctx, call CompatCall), leave func(c *action.Ctx, ret action.Int),
) {
	t.compat, t.decoded = "are not seen", append(t.decoded, names...)
	if t.tellsCompat() == nil {
		t.onCompat(p, names, enter, leave)
	}
}

func (t *Tool) onCompat(p *action.Program, names []string,
	enter func(c *action.Ctx, call CompatCall), leave func(c *action.Ctx, ret action.Int),
) {
	regs := func(c *action.Ctx) action.Ptr { return c.Arg(0).PtrTo("struct pt_regs", false) }
	returns := func(ret func(c *action.Ctx) action.Int) func(c *action.Ctx) {
		return func(c *action.Ctx) {
			c.ReturnUnless(c.Compat())
			leave(c, c.Let(ret(c).As(ir.IntType(4, true))))
		}
	}
	if functions := t.compatFunctions(names); functions != nil {
		var set probe.Set
		for i, name := range names {
			p.On(probe.Kprobe{Symbol: functions[i]}, func(c *action.Ctx) {
				c.ReturnUnless(c.Compat()) // arm64 has some functions for both ABIs
				enter(c, CompatCall{name, c, regs(c)})
			})
			set = append(set, probe.Kretprobe{Symbol: functions[i]})
		}
		if leave != nil {
			p.On(set, returns((*action.Ctx).Ret))
		}
		return
	}
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		id := c.Let(c.Arg(1))
		for _, name := range names {
			nr, ok := sysnames.SyscallNumber(runtime.GOARCH, sysnames.Compat, name)
			if !ok {
				continue
			}
			// Comparing numbers first is what most calls cost.
			c.If(id.Eq(nr), func() {
				c.ReturnUnless(c.Compat())
				enter(c, CompatCall{name, c, regs(c)})
				c.Return()
			})
		}
	})
	if leave != nil {
		p.On(probe.RawTracepoint{Name: "sys_exit"},
			returns(func(c *action.Ctx) action.Int { return c.Arg(1) }))
	}
}

// compatFunctions returns the kernel's functions for calls of 32-bit processes, nil if it
// cannot probe all of them.
func (t *Tool) compatFunctions(names []string) (functions []string) {
	prefix := map[string]string{"amd64": "__ia32_", "arm64": "__arm64_"}[runtime.GOARCH]
	if t.Replaying() || t.Env().Supports(feature.Kprobe) != nil {
		return nil
	}
	for _, name := range names {
		function := ""
		for _, f := range []string{prefix + "compat_sys_" + name, prefix + "sys_" + name} {
			if syms, err := t.Env().KernelSymbols("", f); err == nil && len(syms) > 0 {
				function = f
				break
			}
		}
		if function == "" {
			return nil
		}
		functions = append(functions, function)
	}
	return functions
}

// unseen counts the system calls of 32-bit processes that would have been at a tracepoint of
// group syscalls at which a run is attached.
type unseen struct {
	*action.Session
	names  []string
	counts *action.Counter[uint32] // by numbers, maybe also of other calls
}

// fewCalls is the number of calls for which actions of their own are added.
const fewCalls = 8

// unseenCounter is a source that can count. A run of stacks cannot: counting takes the compiler,
// with which a profiler would be a tenth larger.
type unseenCounter interface {
	watchUnseen(r *Run, names []string) (unseenCount, error)
}

// unseenCount is an *unseen, behind an interface for the same reason.
type unseenCount interface {
	count() (uint64, error)
	Detach() error
	Close() error
}

// unseenBy begins to count if a run's plan has such tracepoints, except for calls that the tool
// decodes. It returns nil if there is nothing to count, or it cannot be; err says why.
func (r *Run) unseenBy(src source) (unseenCount, error) {
	t := r.tool
	names := unseenCalls(runtime.GOARCH, src.Plan(), t.decoded)
	if len(names) == 0 {
		return nil, nil
	}
	if t.compat == "" {
		t.compat = "are not seen, and not counted"
	}
	counter, ok := src.(unseenCounter)
	if !ok {
		return nil, errors.New("they have no tracepoints in group syscalls")
	}
	if err := t.tellsCompat(); err != nil {
		return nil, err
	}
	return counter.watchUnseen(r, names)
}

// watchUnseen implements unseenCounter.
func (*programRun) watchUnseen(r *Run, names []string) (_ unseenCount, err error) {
	t := r.tool
	u := &unseen{names: names}
	u.counts = action.NewCounter[uint32]("unseen", 512)
	p := action.NewProgram("unseen")
	p.IncludeSelf = true // the tool makes no such calls, and leaving it out costs a helper call
	count := func(c *action.Ctx, id any) {
		if chosen := t.chosen(); chosen != nil {
			var mine action.Bool
			for _, task := range chosen {
				mine = mine.Or(c.PID().Eq(task)).Or(c.TID().Eq(task))
			}
			c.ReturnUnless(mine)
		}
		u.counts.Inc(c, id)
	}
	if len(u.names) <= fewCalls {
		t.onCompat(p, u.names, func(c *action.Ctx, call CompatCall) {
			nr, _ := sysnames.SyscallNumber(runtime.GOARCH, sysnames.Compat, call.Name)
			count(c, nr)
		}, nil)
	} else {
		p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
			c.ReturnUnless(c.Compat())
			count(c, c.Arg(1))
		})
	}
	u.Session, err = action.Attach(p, &action.Options{Env: t.Env()})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// unseenCalls returns the names, for 32-bit processes, of the system calls at whose tracepoints
// a plan attaches.
func unseenCalls(arch string, plan *probe.Plan, decoded []string) (names []string) {
	wanted := map[string]bool{}
	for _, p := range plan.Programs {
		for _, site := range p.Sites {
			tp, ok := site.Target.(probe.Tracepoint)
			if !ok || tp.Group != "syscalls" {
				continue
			}
			name := strings.TrimPrefix(strings.TrimPrefix(tp.Name, "sys_enter_"), "sys_exit_")
			wanted[family(name)] = true
		}
	}
	for _, name := range decoded {
		delete(wanted, family(name))
	}
	for _, name := range sysnames.Syscalls(arch, sysnames.Compat) {
		if wanted[family(name)] {
			names = append(names, name)
		}
	}
	return names
}

// family returns a name that the versions of a call share: the tracepoint newfstatat, the call
// fstatat64 of 32-bit processes.
func family(name string) string {
	switch name {
	case "mmap2", "mmap_pgoff":
		return "mmap"
	case "_llseek", "llseek":
		return "lseek"
	case "_newselect":
		return "select"
	case "ugetrlimit":
		return "getrlimit"
	}
	for _, suffix := range []string{"_time64", "64", "32"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return strings.TrimPrefix(name, "new")
}

// count returns the number of calls so far.
func (u *unseen) count() (n uint64, err error) {
	table, err := u.counts.Table(u.Session)
	if err != nil {
		return 0, err
	}
	snap, err := table.Snapshot()
	for _, e := range snap.Entries {
		if slices.Contains(u.names, sysnames.Syscall(runtime.GOARCH, sysnames.Compat, int(e.Key))) {
			n += e.Value
		}
	}
	return n, err
}
