// Package types determines the types of the nodes of bpftrace's scripts, by the rules of
// 0.26.1, or returns bpftrace's errors if it cannot.
//
//	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read { @[comm] = count(); }`), nil)
//	…
//	p, err := types.Check(f, nil)
//	if err != nil {
//		fmt.Print(syntax.ErrorText(err))
//		return
//	}
//	for _, name := range p.Maps() {
//		key, value := p.Map(name)
//		fmt.Println(name, key, value) // @ string[16] count_t
//	}
//
// Before, macros must be expanded (syntax.Expand) and attach points parsed (attach.Parse). The
// caller's [System] provides the types of the kernel and the arguments of probes. Without a
// System there are only those that the script declares.
//
// An integer is as small as the values assigned to it allow, and grows with them. So do
// strings, and the elements of tuples and records. Types are therefore determined for the
// whole script at once, in rounds: the values of sizeof, typeinfo and comptime are literals in
// the next round.
//
// Time and memory are limited for every script: the probes and programs that its configuration
// allows, 25,000 nodes in all copies of actions, with what the passes make of them, 50 rounds,
// 500,000 steps, 100 errors and as many warnings. The limits are checked before anything is
// copied. Attach points are never copied: those of Script.File are the script's.
package types
