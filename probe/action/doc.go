// Package action says what probes do when they fire: whole BPF programs, written
// in Go and compiled in Go. No clang, no LLVM, no files beside the binary.
//
//	start := action.NewHash[uint32, uint64]("start", 10240)
//	usecs := action.NewHist("usecs")
//	p := action.NewProgram("runqlat")
//	p.On(probe.Tracepoint{Group: "sched", Name: "sched_wakeup"}, func(c *action.Ctx) {
//		start.Set(c, c.Field("pid"), c.Nsecs())
//	})
//	p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) {
//		start.Take(c, c.Field("next_pid"), func(t0 action.Int) { usecs.Observe(c, c.Nsecs().Sub(t0).Div(1000)) })
//	})
//	session, err := action.Attach(p, nil)
//
// # Two layers
//
// The typed surface (Ctx, Int, Hash, Events and so on) is for people. The
// function given to On runs once, at build time, and records what the probe will
// do; temporaries are Go variables, and maps and events are generic over Go
// structs, whose memory layout the program shares.
//
// The IR (Program, Stmt, Expr, Map, Type) is for front ends that build programs
// at run time. It is plain data with positions, has a String for people, and
// Compile checks it. The two mix: Value.Expr, Ctx.Do.
//
// # Steps
//
// Attach does all. One by one: probe.Resolve makes a plan of the targets;
// Compile, which is pure and deterministic, turns program and plan into BPF;
// Load loads it; Plan.Attach attaches. NewInterp runs a program in Go, over
// recorded contexts and memory. Loaded.Record records what is read of a program,
// and Open gives the same handles from the recording.
//
// # What is exact
//
// Counters and sums are never lossy: aggregations live in per-CPU entries and
// are changed by atomic operations, because a perf event's NMI may fire inside a
// tracepoint's program. Aggregations of several fields are marked so that a
// reader notices an update in its middle. What finds no room (a full map or
// ring), text that was cut, memory that could not be read and events left out by
// a Budget are counted: Stats. Values that do not fit the 512 bytes of stack live
// in per-CPU scratch memory, in an area of their own for every program that is
// active on the CPU; more than 8 at a time are left out and counted.
//
// # What bpftrace 0.26 can do, and where it is here
//
//	pid tid uid gid comm cpu numaid cgroup ...  Builtins, Ctx.PID, Ctx.Builtin
//	nsecs, nsecs(boot|tai), elapsed, jiffies    Builtins nsecs, nsecs_boot, nsecs_tai, elapsed, jiffies
//	curtask, ppid, rand, func, probe            Builtins, Ctx.CurTask, Ctx.Func, Ctx.Probe
//	arg0, args.name, args->field, retval        Ctx.Arg, Ctx.ArgNamed, Ctx.Field, Ctx.Ret
//	reg("sp")                                   Ctx.Reg, builtins ip and sp
//	kstack(n), ustack(n)                        Ctx.Kstack, Ctx.Ustack: program counters, in keys and events
//	$x = ..., ++                                Go variables, Ctx.NewVar
//	+ - * / % & | ^ << >> ~ !, ?:               methods of Int and Bool, Int.If
//	casts, (struct sock *)x                     Int.As, Int.PtrTo
//	x->a.b[2].c, *x, &x->y, x[i]                Ptr.Member, Ptr.Deref, Ptr.Addr, Ptr.Index
//	str, buf, ntop, macaddr, ksym, usym         Int.Str, Int.UserStr, Ptr.Bytes; naming is the reader's
//	strcontains, strncmp, ==                    Str.Contains, Str.HasPrefix, Str.Eq, OpStrncmp
//	bswap, kptr, uptr, kaddr                    Int.Bswap, Type.User, Ctx.KernelAddr
//	percpu_kaddr                                OpPerCPU
//	(a, b), .0                                  Key, Int.Elem
//	if, else, unroll, while, for, break         Ctx.If, Ctx.Loop, Ctx.Break, Ctx.Continue, Hash.ForEach
//	return, /filter/                            Ctx.Return, Ctx.ReturnUnless
//	@x[k] = v, delete, has_key                  Hash.Set, Delete, Has, Get, Add, Find, Take
//	count sum min max avg stats                 NewCounter, NewSum, NewMin, NewMax, NewAvg, NewStats
//	hist(x, k), lhist, tseries                  NewHist, Hist.Sub, NewLinear, NewSeries
//	printf, print, join, time, cat              Events, Log.Printf
//	signal, exit, override                      Ctx.Signal, Ctx.Exit, Ctx.Override
//	clear, zero, print(@, top, div)             the reader's: mapx tables
//	system                                      the reader's: an event
//	entry and return by hand with @start[tid]   Pair
//
// # Lifetime, privileges, overhead
//
// A Session owns everything it made; Close removes it, as does the end of the
// process. Loading needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), and
// Linux 5.10 or later; what a kernel lacks is an error that matches
// errors.ErrUnsupported. The tracing process itself is left out unless
// Program.IncludeSelf is set, at the cost of one helper call per event. A count
// by thread name adds about 0.15 µs to a system call; internal/bench/action
// measures it beside hand-written code and bpftrace.
package action
