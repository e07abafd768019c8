// Package spec reads the probes that trace, argdist and characterize take on the command line: each with a
// filter and values in bpftrace's language, which package script types and makes programs of.
//
//	probes, err := spec.Parse(t, []string{`t:syscalls:sys_enter_read /args.count > 100/ comm`}, nil)
//	// for _, a := range probes[0].Actions {
//	//	program.On(a.Target, func(c *action.Ctx) { a.Run(c); ... a.Values })
//	// }
//
// The expressions are those of scripts, but they compute values only (script.Inline):
//
//	arg0 args.count               arguments: by number of kprobes, uprobes and usdt, by name of
//	                              tracepoints, fentry, and uprobes whose files have DWARF
//	retval                        the returned value, of 64 bits without a sign but in fexit
//	pid tid uid comm cpu nsecs    bpftrace's builtins
//	(int32)retval (struct sock *)arg0
//	                              casts
//	args.file->f_path.dentry      members, by the kernel's types
//	str(p) str(p, n)              text at an address
//	strcontains(s, "x") strncmp(s, "x", 1) strlen(s) bswap(x)
//
// What a value may be, and as what it is printed, is in a [Value], which recordings keep: a replay needs
// neither the machine nor the types that it had.
package spec
