// Package system describes a machine, live or recorded, to the checker of bpftrace's scripts:
// the kernel's types, the arguments of probes, and features.
//
//	s := system.New(probe.NewEnv(nil), nil)
//	p, err := types.Check(f, &types.Options{System: s})
//
// A System reads everything at its first use: for a script without types of the kernel it
// reads nothing. Reading the kernel's types takes 10 to 20 ms, and finding the enumerators of
// a script another 5 ms.
//
// Arguments are those of probe's plans. For tracepoints they come from the format files, or
// from the kernel's types without one; for kernel functions and raw tracepoints from the
// kernel's types; for user functions from DWARF, if Options.DWARF is set. The probes of a program
// then have its types, before those of the kernel. Probes in a module have its types, too.
package system
