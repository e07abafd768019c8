// Package expr parses the expressions that trace and argdist take on the command line:
// filters and values. The nodes of the result are those of package probe/action.
//
//	e, err := expr.Parse(`args.count > 100 && comm == "cat"`, target)
//	// program.On(target, func(c *action.Ctx) { expr.Filter(c, e); ... })
//
// The syntax is C's, with bpftrace's extensions:
//
//	arg0 args.count args->file    arguments, by number and by name; fields of a tracepoint.
//	                              Names of user functions come from their debug information
//	                              (Resolve); in Go, numbers count registers, two for a string
//	retval                        the return value, in return probes
//	pid tid uid comm cpu nsecs    the builtins of package ir; compat is whether a system
//	                              call is one of a 32-bit program
//	10 0x1f "text"                constants
//	+ - * / % & | ^ << >> ~       arithmetic
//	== != < <= > >= && || ! ?:    conditions; == compares text, too. One that no value can
//	                              change, as unsigned < 0, is an error
//	p->a.b[2] *p p[i]             memory, by the kernel's types
//	(struct sock *)arg0 (u32)x    casts
//	str(p) str(p, 32) ustr(p)     text at an address, of at most 63 bytes or so many;
//	                              ustr where it is not known to be the user's. Arguments
//	                              of user probes are
//	str(p, n) str(p, n, 32)       of n bytes, a value such as arg1, and at most 63 or so many:
//	                              text of Go, str(args.s.str, args.s.len), has no NUL
//	contains(s, "x") prefix(s, "x") len(s) bswap(x)
package expr
