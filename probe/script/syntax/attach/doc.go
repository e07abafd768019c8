// Package attach reads the attach points of bpftrace's scripts, which have a grammar of
// their own for each provider.
//
//	f, err := syntax.Parse("stdin", []byte(`kprobe:vfs_read+4, interval:5ms { }`), nil)
//	if err == nil {
//		err = attach.Parse(f, nil)
//	}
//	if err == nil {
//		err = attach.Check(f, nil)
//	}
//
// The errors are bpftrace's. Nothing of the machine is asked: whether a function, a file or
// an event is there is for whoever attaches.
package attach
