// Package broker lets a service without capabilities use probes: a privileged
// helper process attaches, for whom its policy lets it, programs that it knows,
// and hands maps, rings and links as descriptors over a Unix socket.
//
// The helper:
//
//	server, err := broker.NewServer(policy, offers)
//	if err != nil {
//		return err
//	}
//	return server.Serve(listener) // of net.ListenUnix("unixpacket", …)
//
// The service:
//
//	client, err := broker.Dial("/run/probes.sock")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	a, err := client.Attach(broker.Request{Offer: "malloc", Targets: []string{"uprobe:libc:malloc"}, Self: true})
//	if err != nil {
//		return err
//	}
//	defer a.Close()
//	counts, err := mapx.New[uint32, uint64](a.Maps["counts"])
//
// # Who may do what
//
// Programs never come from the client: it names an offer, which the helper has,
// and targets. A Policy is plain data, and names who may have which offer at
// which targets, in whose processes, for how many events a second and how much
// memory. Who the client is the kernel says (SO_PEERCRED). What a policy does
// not allow is refused with an error that says which part of it; nothing is
// attached then.
//
// Unless a rule is for all processes, a client may have probes in processes of its
// own only, and whose a process is the broker asks the kernel with the client's
// rights: those who could not trace it (ptrace(2)) may not probe it. Files are
// read with the client's rights too, and what a client can't read it is not told
// of. Targets are functions and USDT probes, not addresses, in files that give no
// privileges, and samples by clocks, software events and the CPU's counters, not by
// whatever else perf has a spelling for. A breakpoint stays in what a process
// executes, whatever privileges that has, so one is only put into files of the
// client's user or into processes with no_new_privs: a service has itself probed
// most simply with NoNewPrivileges=yes. When such a process executes another
// program, the attachment has ended, and nothing of the new program is told.
//
// Maps are handed out read-only, except rings, whose readers must move a
// position, and those that the offer says. The budget's own state stays here.
// Maps and links that a client has descriptors of are booked as long as they
// exist.
//
// A user has at most 32 connections, 4 requests at a time and, in the long run, 8
// attach requests a second; one takes at most 30 seconds, and a connection
// without attachments may be silent for 5 minutes.
//
// # Lifetime
//
// Attachments belong to the connection: they end when the client closes them,
// closes the connection, or dies, and when the helper ends. With Rule.HandOver
// the client owns the links instead, and the helper may end. What can't be shared
// (deploy.Share), as sessions, needs HandOver.
//
// Clients that ask for the same places in all processes share one attachment,
// each with programs, maps and a budget of its own; those that name a process
// have one each.
//
// Serve has a goroutine for each connection, and each request one that may stay
// behind: a file system that never answers keeps it, though not the client.
//
// # Privileges and kernels
//
// The helper needs what probe.Requires says for its targets, and CAP_SYS_ADMIN
// to hand out read-only descriptors; for processes of clients' own it needs
// CAP_SETUID and CAP_SETGID to take their rights, and the initial process
// namespace for clients in others. The client needs nothing, from Linux 5.19
// on; older kernels let nobody without CAP_BPF use even descriptors of maps
// unless the sysctl kernel.unprivileged_bpf_disabled is 0, which the error says.
// Perf event arrays are of no use to a client, who may not open the perf events:
// use ring buffers.
//
// # Overhead
//
// A request takes what resolving, loading and attaching take. Each event costs a
// tail call and a counter more than without the broker, which is how budgets
// hold whatever the program does; Rule.HandOver spares it, and has no budget.
package broker
