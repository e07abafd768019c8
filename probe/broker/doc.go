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
//	for {
//		conn, err := listener.AcceptUnix() // of net.ListenUnix("unixpacket", …)
//		if err != nil {
//			return err
//		}
//		go server.ServeConn(conn)
//	}
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
// Maps are handed out read-only, except rings, whose readers must move a
// position, and those that the offer says. The budget's own state stays here.
//
// # Lifetime
//
// Attachments belong to the connection: they end when the client closes them,
// closes the connection, or dies, and when the helper ends. With Rule.HandOver
// the client owns the links instead, and the helper may end. What can't be shared
// (probe.Plan.Share), as sessions, needs HandOver.
//
// Clients that ask for the same places in all processes share one attachment,
// each with programs, maps and a budget of its own; those that name a process
// have one each.
//
// The package starts no goroutine: the caller of ServeConn does.
//
// # Privileges and kernels
//
// The helper needs what probe.Requires says for its targets, and CAP_SYS_ADMIN
// to hand out read-only descriptors. The client needs nothing, from Linux 5.19
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
