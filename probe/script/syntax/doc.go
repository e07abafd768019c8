// Package syntax parses scripts in bpftrace's language, as of 0.26.1, into a tree with
// positions, and prints them.
//
//	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read /pid == 1/ { @[comm] = count(); }`), nil)
//	if err != nil {
//		fmt.Print(syntax.ErrorText(err)) // as bpftrace prints it, with the line and an underline
//		return
//	}
//	for n := range syntax.All(f) {
//		if c, ok := n.(*syntax.Call); ok {
//			fmt.Println(c.At(), c.Name)
//		}
//	}
//
// [Parse] applies the grammar only. The passes after it are separate, in this order: [Expand]
// replaces the uses of macros, package attach parses attach points, and [SetParams] replaces
// the positional parameters. [Format] prints a script as bpftrace --fmt does, [Dump] prints a
// tree as bpftrace -d ast does.
//
// Parsing takes time and memory in proportion to the size of the input, whatever it contains.
// Size and nesting have limits. The package uses nothing of the machine and has no state. A
// tree may be read by several goroutines at a time, and changed by one.
package syntax
