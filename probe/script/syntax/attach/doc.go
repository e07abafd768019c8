// Package attach parses the attach points of bpftrace's scripts. Each provider has its own
// grammar for them.
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
