// Package deploy has several users, or several versions of a program, share what a
// plan attaches.
//
// Share attaches once for several users in a process, each with programs, maps and
// a budget of its own, who come and go without attaching anything anew:
//
//	mux, err := deploy.Share(plan, nil)
//	defer mux.Close()
//	one, err := mux.Join(spec, &deploy.UserOptions{EventsPerSecond: 1000})
//
// Deploy attaches for good, in a directory of a BPF file system: the next process,
// or the next version of the program, takes over attachments and maps, and swaps
// the programs in place. No event is lost, and none is seen twice.
//
//	d, err := deploy.Deploy("/sys/fs/bpf/mytool", plan, spec, nil)
//	hits := d.Map("hits") // what earlier versions have counted
//
// Both put a small program at each site that tail calls those of the users, because
// Linux replaces the program of no tracing link but an iterator's (probe.Link.Update).
// It costs a tail call for each event and user.
//
// Privileges and kernels are those of package probe; Share needs Linux 5.10, Deploy
// 5.15 for probes, and a BPF file system.
package deploy
