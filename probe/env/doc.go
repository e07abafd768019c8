// Package env describes a machine, live or recorded, to the planning of probes: the kernel's
// types (BTF), functions, tracepoints and features, its architecture and its files. It reads
// each of them when it is first needed, and keeps it.
//
//	e := env.New(nil) // this machine; Options.Root is the tree of another
//	if err := e.Supports(feature); err != nil {
//		fmt.Println(err) // names the CONFIG_ option, sysctl or capability
//	}
//	format, err := e.Tracepoint("sched", "sched_switch")
//
// An Env of a recorded tree returns on any machine, without root, what the recorded machine
// would have returned: plans can be made for it, compared and tested. Reading the live kernel's
// BTF and tracefs may need root; errors name the file.
package env
