// Package deploy shares a plan's attachments between several users, or between several
// versions of a program.
//
// Share attaches once for several users in a process. Each has its own programs, maps and
// budget, and can join and leave without attaching anything again:
//
//	mux, err := deploy.Share(plan, nil)
//	defer mux.Close()
//	one, err := mux.Join(spec, &deploy.UserOptions{EventsPerSecond: 1000})
//
// Deploy attaches beyond the life of the process, in a directory of a BPF file system. The
// next process, or the next version of the program, takes over attachments and maps, and
// swaps the programs in place. No event is lost, and no event is seen twice.
//
//	d, err := deploy.Deploy("/sys/fs/bpf/mytool", plan, spec, nil)
//	hits := d.Map("hits") // what earlier versions have counted
//
// Both put a small program at each site, which tail calls those of the users, because Linux
// can't replace the program of any tracing link except an iterator's (probe.Link.Update). It
// costs a tail call for each event and user.
//
// Privileges and kernels are those of package probe. Share needs Linux 5.10, Deploy 5.15 for
// probes, and a BPF file system.
package deploy
