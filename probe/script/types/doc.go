// Package types gives the nodes of bpftrace's scripts their types, by the rules of 0.26.1,
// or says in bpftrace's words why there are none.
//
//	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read { @[comm] = count(); }`), nil)
//	…
//	p, err := types.Check(f, nil)
//	if err != nil {
//		fmt.Print(syntax.Text(err))
//		return
//	}
//	for _, name := range p.Maps() {
//		key, value := p.Map(name)
//		fmt.Println(name, key, value) // @ string[16] count_t
//	}
//
// Macros are expanded before (syntax.Expand) and attach points read (attach.Parse). What
// structs there are, and what arguments probes have, the caller's [System] says; without
// one there are none but those that the script declares.
//
// Integers are as small as what is assigned to them, and grow; so do strings, and the
// elements of tuples and records. Types are therefore found for the whole script at a
// time, in rounds: what sizeof, typeinfo and comptime ask for is a literal in the next one.
//
// Whatever the script is, time and memory have limits: 25,000 nodes in all copies of
// actions, 50 rounds, 500,000 steps, 100 errors.
package types
