// Package usdt finds the user statically defined tracing probes (USDT, "SDT markers") of
// programs and libraries, parses every form of argument that compilers write for them, and
// evaluates arguments from registers and memory. Its sub-packages define probes in Go
// programs: provider at run time, static at link time.
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
// A probe is a nop in the program's text with a note. The note has the name of the probe, the
// operands that hold its arguments at that place, and the address of the counter that a
// tracer increments to enable it. A probe has many sites if functions are inlined, each with
// its own operands, so arguments belong to a Site and a Probe is a merged view.
//
// A value that can't be read at run time (in a vector register, or of a stripped symbol) is an
// Arg with a Reason, not an error. Text that no compiler writes is an error with a column. A
// bad site doesn't hide the others.
//
// Reading files needs no privileges and keeps no state. Reading a process (Modules) needs the
// right to read its /proc/PID/maps and files. A File holds one mapped file until Close;
// results are plain data that outlive it.
package usdt
