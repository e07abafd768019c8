// Package attach parses the attach points of bpftrace's scripts. Each provider has its own
// grammar for them. It sets the fields of [syntax.AttachPoint] that System.Expand and types.Check
// read, for callers that take a script through these steps by themselves; script.Check does it for
// the others.
//
//	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read+4, interval:5ms { }`), nil)
//	if err == nil {
//		err = attach.Parse(f, nil)
//	}
//	if err == nil {
//		err = attach.Check(f, nil)
//	}
//
// The errors are bpftrace's. The package does not look at the machine: whether a function, a
// file or an event exists is checked when a program is attached.
package attach
