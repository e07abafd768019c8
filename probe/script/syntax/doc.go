// Package syntax reads bpftrace's language, as of 0.26.1, into a tree with positions, and
// prints it back.
//
//	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read /pid == 1/ { @[comm] = count(); }`), nil)
//	if err != nil {
//		fmt.Print(syntax.Text(err)) // as bpftrace says it, with the line and what is wrong in it
//		return
//	}
//	for n := range syntax.All(f) {
//		if c, ok := n.(*syntax.Call); ok {
//			fmt.Println(c.At(), c.Name)
//		}
//	}
//
// [Parse] knows the grammar only. The passes after it are separate, in this order: [Expand]
// replaces the uses of macros, package attach reads what attach points name, [SetParams] puts
// in the positional parameters. [Format] prints a script as bpftrace --fmt does, [Dump] a
// tree as bpftrace -d ast does.
//
// Whatever the input is, parsing takes time and memory in proportion to its size, which
// has a limit, as nesting has. The package needs nothing of the machine and holds no state;
// a tree may be read by several goroutines at a time, and changed by one.
package syntax
