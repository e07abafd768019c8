// Package action makes the BPF programs that run when probes fire. They are written as Go
// functions and compiled in Go: no clang, no LLVM, no files beside the binary.
//
//	start := action.NewHash[uint32, uint64]("start", 10240)
//	usecs := action.NewHist[action.None]("usecs", 1)
//	p := action.NewProgram("runqlat")
//	p.On(probe.Tracepoint{Group: "sched", Name: "sched_wakeup"}, func(c *action.Ctx) {
//		start.Set(c, c.Field("pid"), c.Nsecs())
//	})
//	p.On(probe.Tracepoint{Group: "sched", Name: "sched_switch"}, func(c *action.Ctx) {
//		start.Take(c, c.Field("next_pid"), func(t0 action.Int) {
//			usecs.Observe(c, c.Nsecs().Sub(t0).Div(1000))
//		})
//	})
//	session, err := action.Attach(p, nil)
//
// # Two layers
//
// The typed surface (Ctx, Int, Hash, Events and so on) is for programs written by hand. On
// calls its function once, at build time, to record what the probe will do. Temporaries are Go
// variables; maps and events are generic over Go structs, whose memory layout the program
// shares.
//
// The recording is an ir.Program: plain data with positions, which front ends make without
// this package (package ir). The two layers mix: see Value.Expr and Ctx.Do.
//
// # Steps
//
// Attach performs all steps. Each is also a function: bpf.Resolve makes a plan of the targets;
// bpf.Compile, which is pure and deterministic, compiles a program for a plan to BPF; bpf.Load
// loads it; Plan.Attach attaches it. Package interp runs a program in Go, over recorded
// contexts and memory. bpf.Loaded.Record records what is read of a program, and bpf.Open gives
// the same handles from the recording.
//
// # What is exact
//
// Counters and sums are never lossy. Aggregations have per-CPU entries that are changed by
// atomic operations, because a perf event's NMI may fire inside a tracepoint's program.
// Aggregations of several fields are marked so that a reader detects an update in progress and
// reads again.
//
// One thing is not exact on kernels without atomic exchange (5.10; arm64 before 5.18): a
// minimum or maximum that a program in an interrupt observes in the middle of another
// program's update of the same key on the same CPU may be overwritten.
//
// Losses are counted in Stats: entries and events that find no room in a map or ring, text
// that was cut, memory that could not be read, and events left out by a Budget. Values that do
// not fit the 512 bytes of stack are kept in per-CPU scratch memory, which has an area for
// each program that is active on the CPU. Programs beyond 8 at a time are left out and
// counted.
//
// # What bpftrace 0.26 can do, and where it is here
//
//	pid tid uid gid comm cpu numaid cgroup ...  ir.Builtins, Ctx.PID, Ctx.Builtin
//	pid(curr_ns), ncpus, usermode               builtins nspid, nstid, ncpus, usermode
//	leader_comm, leader_tid, pcomm              Ctx.PComm; Ctx.CurTask: group_leader->pid,
//	                                            real_parent->comm
//	nsecs, nsecs(boot|tai|sw_tai), elapsed      builtins nsecs, nsecs_boot, nsecs_tai,
//	                                            nsecs_sw_tai, elapsed, jiffies
//	(none: whether a call is a 32-bit one)      Ctx.Compat, builtin compat
//	curtask, ppid, rand, func, probe, probetype ir.Builtins, Ctx.CurTask, Ctx.Probe
//	arg0, args.name, args->field, retval        Ctx.Arg, Ctx.ArgNamed, Ctx.Field, Ctx.Ret
//	reg("sp")                                   Ctx.Reg, builtins ip and sp
//	kstack(n), ustack(n), len(kstack)           Ctx.Kstack, Ctx.Ustack: program counters, in keys
//	                                            and events; Stack.Len
//	dw_ustack                                   Ctx.UstackWalk, after bpf.Loaded.AddProcess
//	$x = ..., ++                                Go variables, Ctx.NewVar
//	+ - * / % & | ^ << >> ~ !, ?:               methods of Int and Bool; Select
//	casts, (struct sock *)x, (uint8[8])x        Int.As, Int.PtrTo; ir.OpCast, Tuple.Int
//	x->a.b[2].c, *x, &x->y, x[i], x + i         Ptr.Member, Ptr.Index, Ptr.Addr, Ptr.At
//	user-defined structs                        Ptr.Load with ir.TypeOf of a Go struct, Int.Elem
//	enums, sizeof, offsetof, container_of       Ctx.Enum, Ctx.Sizeof, Ptr.Offset, Ptr.Container
//	is_err                                      Ptr.IsErr
//	str, buf, ksym, usym                        Int.Str, Int.UserStr, Ptr.Bytes; naming is the
//	                                            reader's
//	ntop, macaddr, pton                         IPv4, IPv6, MAC in a Log or an event; Addr
//	strcontains, strstr, strlen                 Str.Contains, Str.IndexOf, Str.Len, and Str.Glob
//	strncmp, memcmp, ==                         Str.Eq, Str.HasPrefix, Tuple.Eq; ir.OpStrncmp,
//	                                            ir.OpMemcmp
//	bswap, kptr, uptr                           Int.Bswap, ir.OpKptr, Ptr.User
//	kaddr, percpu_kaddr, uaddr                  Ctx.KernelAddr, Ptr.OnCPU, Ctx.UserAddr
//	cgroupid, cgroup_path                       CgroupID, CgroupPath
//	socket_cookie, path                         Ptr.SocketCookie, Ptr.Path
//	(a, b), .0, records, [i]                    Key; Int.Index; parts of a tuple are Go variables,
//	                                            or ir.OpElem
//	if, else, unroll, while, for, break         Ctx.If, Ctx.Loop, Ctx.While, Ctx.Break,
//	                                            Ctx.Continue, Hash.ForEach
//	return, /filter/                            Ctx.Return, Ctx.ReturnUnless
//	@x[k] = v, delete, has_key, find, len(@x)   Hash.Set, Delete, Has, Get, Add, Find, Take, Len
//	let @x = hash(n), lruhash, percpuhash ...   NewHash, NewLRU, NewArray, NewCell; ir.MapKind
//	count sum min max avg stats                 NewCounter, NewSum, NewMin, NewMax, NewAvg,
//	                                            NewStats
//	reading them: if (@x > 10)                  Counter.Value, Aggregate.Value, Summary.Mean
//	                                            (Linux 5.19)
//	hist(x, k), lhist, tseries                  NewHist, Hist.Sub, NewLinear, NewSeries
//	printf, errorf, warnf, print, join, time    Events, Log.Printf
//	assert                                      Ctx.If with Log.Printf and Ctx.Exit
//	skboutput                                   Packets.Emit, package pcap
//	signal, signal_thread, exit(n), override    Ctx.Signal, Ctx.Exit, Ctx.Override
//	clear, zero, print(@, top, div)             the reader's: mapx tables; ir.Map.Flip clears
//	                                            without a loss
//	system, cat, strftime, strerror, username,  the reader's: an event
//	signal_name, syscall_name, comm(pid), %gr
//	entry and return by hand with @start[tid]   Pair; NewTaskStorage; Program.OnCall
//	macros, $1, getopt, imports, block          Go's own
//	expressions, cpid, typeof, is_ptr, strcap,
//	static_assert, fail, config
//	kfunc_exist, kfunc_allowed                  an error of bpf.Compile that matches
//	                                            errors.ErrUnsupported
//
// Not there:
//
//   - write_user, because probes must not change the memory of what they observe (the kernel
//     warns of every program that can); Ctx.Signal and Ctx.Override are the exceptions
//   - unwatch, because a watchpoint ends with its Session: give it one of its own
//   - &$x and &@x, because values are passed in Go variables, and Find gives those of a map
//   - calls of functions of an imported C file, and of other kernel functions
//
// # Lifetime, privileges, overhead
//
// A Session owns everything it made. Close removes it, as does the end of the process. Loading
// needs CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8), and Linux 5.10 or later. If the
// kernel lacks a feature, the error matches errors.ErrUnsupported.
//
// The tracing process itself is left out unless Program.IncludeSelf is set, at the cost of one
// helper call per event. Set it for events in interrupts, which are attributed to whatever
// task they interrupt. A count by thread name adds about 0.15 µs to a system call;
// internal/bench/action measures it beside hand-written code and bpftrace.
//
// A service that counts and times all of its own system calls pays about 4 % of a trivial request:
// with the start in task storage that the return sets to zero (an entry that is made and freed for
// each call, as by Take, costs eight times as much), and at the raw tracepoint sys_enter, for which
// the kernel makes no record. Programs at system calls run for all processes before the filter
// ends them, at 57 ns a call for these. Counts cost half of it, and samples by a timer
// (stack/collect) nothing per call: ask for these where times are too dear. internal/bench/service
// has the measurements.
package action
