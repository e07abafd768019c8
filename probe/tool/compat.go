package tool

import (
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
	return t.Env().Supports(feature.BTF)
}

// noteCompat prints, at the beginning of a run, what is missing of the calls of 32-bit
// processes. err is why the calls without tracepoints are not counted.
func (s *Session) noteCompat(err error) {
	if s.tool.compat == "" {
		return
	}
	if no := s.tool.tellsCompat(); no != nil {
		err = no
	}
	if err != nil {
		s.Note("System calls of 32-bit processes %s: %s\n", s.tool.compat, oneLine(err))
	}
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

// Entered returns the key of the call that begins, at sys_enter.
func (k *Calls) Entered(c *action.Ctx) action.Int {
	id := c.Field("id").As(ir.IntType(4, false))
	if k.compat {
		id = id.Or(c.Compat().Int().Shl(31)).As(ir.IntType(4, false))
	}
	return c.Let(id)
}

// Returned returns the key of the call that returns, at sys_exit. An exec returns as execve of
// the new program's ABI.
func (k *Calls) Returned(c *action.Ctx) action.Int {
	id := k.Entered(c)
	if k.execs == nil {
		return id
	}
	// On arm64 an exec returns with the number that it was called by and the new program's
	// ABI, in which that may be another call.
	key := c.NewVar(id)
	var may action.Bool
	for _, nr := range numbers("arm64", "execve", "execveat") {
		may = may.Or(id.And(compatBit - 1).Eq(nr &^ compatBit))
	}
	c.If(may, func() {
		k.execs.Take(c, c.TID(), func(native action.Int) { key.Set(native) })
	})
	return c.Let(key.Int())
}

// Result returns the return value at sys_exit. For a call of a 32-bit process it has 32 bits.
func (k *Calls) Result(c *action.Ctx) action.Int {
	ret := c.Field("ret")
	if !k.compat {
		return ret
	}
	return c.Let(action.Select(c.Compat(), ret.As(ir.IntType(4, true)).As(ir.Int64Type()), ret))
}

// Is reports whether key is that of a call with this name, in any ABI.
func (k *Calls) Is(key action.Int, name string) (is action.Bool) {
	for _, nr := range numbers(runtime.GOARCH, name) {
		is = is.Or(key.Eq(nr))
	}
	return is
}

// numbers returns the keys of calls by their names, in all ABIs of an architecture.
func numbers(arch string, names ...string) (keys []int) {
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
func (s *Session) CallName(key uint32) string {
	nr, abi := int(int32(key)), sysnames.Native
	if nr < -1 {
		nr, abi = int(key&^compatBit), sysnames.Compat
	}
	return sysnames.Syscall(s.Arch(), abi, nr)
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

// OnCompat adds actions to p: enter at the beginning of system calls of 32-bit processes with
// one of these names, for which the kernel has no tracepoints of group syscalls. enter is
// called once for each name, to record the action. The cost of other calls is a comparison of
// numbers. Without BTF programs cannot tell such calls: OnCompat adds nothing, and Run prints
// that.
func (t *Tool) OnCompat(p *action.Program, names []string,
	enter func(c *action.Ctx, call CompatCall),
) {
	t.compat, t.decoded = "are not seen", append(t.decoded, names...)
	if t.tellsCompat() != nil {
		return
	}
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		id := c.Let(c.Arg(1))
		for _, name := range names {
			nr, ok := sysnames.SyscallNumber(runtime.GOARCH, sysnames.Compat, name)
			if !ok {
				continue
			}
			c.If(id.Eq(nr), func() {
				c.ReturnUnless(c.Compat())
				enter(c, CompatCall{Name: name, c: c, regs: c.Arg(0).Ptr()})
				c.Return()
			})
		}
	})
}

// OnCompatReturn adds an action to p, with OnCompat: leave, where any system call of a 32-bit
// process returns ret.
func (t *Tool) OnCompatReturn(p *action.Program, leave func(c *action.Ctx, ret action.Int)) {
	if t.tellsCompat() != nil {
		return
	}
	p.On(probe.RawTracepoint{Name: "sys_exit"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Compat())
		leave(c, c.Let(c.Arg(1).As(ir.IntType(4, true))))
	})
}

// unseen counts the system calls of 32-bit processes that would have been at a tracepoint of
// group syscalls at which a run is attached.
type unseen struct {
	*action.Session
	calls  []int
	counts *action.Counter[uint32]
}

// fewCalls is the number of calls that a program tells by comparing their numbers, which costs
// less than finding out that a call is of a 32-bit process.
const fewCalls = 8

// watchUnseen begins to count if a plan has such tracepoints, except for calls that the tool
// decodes. It returns nil if there is nothing to count, or the kernel cannot; err says why.
func (s *Session) watchUnseen(plan *probe.Plan) (_ *unseen, err error) {
	t := s.tool
	u := &unseen{calls: unseenCalls(runtime.GOARCH, plan, t.decoded)}
	if len(u.calls) == 0 {
		return nil, nil
	}
	if t.compat == "" {
		t.compat = "are not seen, and not counted"
	}
	if err := t.tellsCompat(); err != nil {
		return nil, err
	}
	u.counts = action.NewCounter[uint32]("unseen", 512)
	p := action.NewProgram("unseen")
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		id := c.Let(c.Arg(1))
		if len(u.calls) <= fewCalls {
			var one action.Bool
			for _, nr := range u.calls {
				one = one.Or(id.Eq(nr))
			}
			c.ReturnUnless(one)
		}
		c.ReturnUnless(c.Compat())
		if chosen := t.chosen(); chosen != nil {
			var mine action.Bool
			for _, task := range chosen {
				mine = mine.Or(c.PID().Eq(task)).Or(c.TID().Eq(task))
			}
			c.ReturnUnless(mine)
		}
		u.counts.Inc(c, id)
	})
	u.Session, err = action.Attach(p, &action.Options{Env: t.Env()})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// unseenCalls returns the numbers, of 32-bit processes, of the system calls at whose
// tracepoints a plan attaches.
func unseenCalls(arch string, plan *probe.Plan, decoded []string) (numbers []int) {
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
			nr, _ := sysnames.SyscallNumber(arch, sysnames.Compat, name)
			numbers = append(numbers, nr)
		}
	}
	return numbers
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
	if u == nil {
		return 0, nil
	}
	table, err := u.counts.Table(u.Session)
	if err != nil {
		return 0, err
	}
	snap, err := table.Snapshot()
	for _, e := range snap.Entries {
		if slices.Contains(u.calls, int(e.Key)) {
			n += e.Value
		}
	}
	return n, err
}

// detach ends counting.
func (u *unseen) detach() error {
	if u == nil {
		return nil
	}
	return u.Detach()
}

func (u *unseen) close() error {
	if u == nil {
		return nil
	}
	return u.Close()
}
