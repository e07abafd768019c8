// Package usdt finds the user statically defined tracing probes (USDT, "SDT
// markers") of programs and libraries, understands every form of argument that
// compilers write for them, and evaluates arguments from registers and memory.
// Its sub-packages define probes in Go programs: provider at run time, static
// at link time.
//
//	f, err := usdt.Open("/usr/lib/postgresql/15/bin/postgres")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	probes, err := f.Probes()
//	for _, p := range probes {
//		fmt.Println(p.Provider, p.Name, len(p.Sites), p.Sites[0].Args)
//	}
//
// A probe is a nop in the program's text and a note beside it that says what
// the probe is called, which operands hold its arguments at that very place,
// and where the counter is that a tracer increments to switch it on. One probe
// has many sites when functions are inlined, each with operands of its own, so
// arguments belong to a Site and a Probe is a merged view.
//
// What can't be read at run time (a value in a vector register, a symbol that
// was stripped) is an Arg with a Reason, not an error; what no compiler writes
// is an error with a column; and one bad site doesn't hide the others.
//
// Reading files needs no privileges and keeps no state. Reading a process
// (OpenProcess) needs the right to read its /proc/PID/maps and files. A File
// holds one mapped file until Close; results are plain data that outlive it.
package usdt
