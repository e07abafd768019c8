// Package system answers what bpftrace's scripts ask of a machine, live or recorded: the
// kernel's types, the arguments of probes, features.
//
//	s := system.New(probe.NewEnv(nil), nil)
//	p, err := types.Check(f, &types.Options{System: s})
//
// What it reads, it reads when a script first asks for it: a script without types of the
// kernel reads nothing. Reading the kernel's types takes 10 to 20 ms, finding the enumerators
// of a script some 5 ms more.
//
// Arguments are those of probe's plans: of tracepoints by their format files, and where
// there are none by the kernel's types; of kernel functions and raw tracepoints by the
// kernel's types; of user functions by DWARF, if Options say so.
package system
