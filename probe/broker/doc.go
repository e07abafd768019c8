// Package broker lets a service without capabilities use probes. A privileged helper
// process attaches programs that it knows, as its policy allows, and passes maps, rings
// and links to the service as descriptors over a Unix socket.
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
//	a, err := client.Attach(broker.Request{
//		Offer: "malloc", Targets: []string{"uprobe:libc:malloc"}, Self: true,
//	})
//	if err != nil {
//		return err
//	}
//	defer a.Close()
//	counts, err := mapx.New[uint32, uint64](a.Maps["counts"])
//
// # Permissions
//
// Programs never come from the client: it names an offer, which the helper has, and
// targets. A Policy is plain data. It says which users may have which offer at which
// targets, in which processes, for how many events a second and how much memory:
//
//	{"rules": [{
//		"uids": [1000], "offers": ["malloc", "profile"],
//		"targets": [
//			{"kind": "uprobe", "file": "libc", "function": "*alloc"},
//			{"kind": "sample", "event": "clock"}
//		],
//		"events_per_second": 1000
//	}]}
//
// What a client asks for is compared with these field by field (Allow), so that it does not
// matter how it is written. Offsets into functions, source lines, addresses and demangled
// names are allowed only where a rule says so. The kernel identifies the client
// (SO_PEERCRED). Requests that a policy does not allow are refused with an error that names
// the reason; nothing is attached then.
//
// Unless a rule is for all processes, a client may have probes only in processes of its
// own. The broker asks the kernel for that with the client's rights: a client that could
// not trace a process (ptrace(2)) may not probe it. Files are read with the client's
// rights too; the client learns nothing of files that it can't read. Targets are functions
// and USDT probes in files that give no privileges, and samples by clocks, software events
// and the CPU's counters. Addresses and other perf events are not allowed. Samples and
// watchpoints fire in user mode only, unless the rule includes the kernel.
//
// A breakpoint stays in the programs that a process executes, whatever privileges these
// have. It is therefore only put into files of the client's user or into processes with
// no_new_privs; for a service that has itself probed, NoNewPrivileges=yes is simplest. When
// such a process executes another program, the attachment ends, and the client gets no
// information on the new program, nor on any process that it starts.
//
// Maps are handed out read-only, except rings, whose readers must move a position, and
// maps that the offer makes writable. The budget's own state stays in the helper. Maps and
// links that a client has descriptors of count against its limits as long as they exist.
//
// A user has at most 32 connections, 4 requests at a time and, over time, 8 attach requests
// a second. A request takes at most 30 seconds, and a connection without attachments may be
// idle for 5 minutes. Samples that may exceed the budget are refused when they are asked for;
// places that are hit too often anyway may not be probed for a while, by any other request of
// the user's either.
//
// # Lifetime
//
// Attachments belong to the connection: they end when the client closes them, closes the
// connection, or dies, and when the helper ends. With Rule.HandOver the client owns the
// links instead, and the helper may end. Attachments that can't be shared (deploy.Share),
// such as sessions, need HandOver.
//
// Clients that ask for the same places in all processes share one attachment, each with
// its own programs, maps and budget. Clients that name a process have one each.
//
// Serve has two goroutines for each connection: one receives and answers, the other checks the
// attachments every second, and ends them when the client has gone, whatever the first waits
// for. Each request has another one, which may remain: a file system that never answers blocks
// it, but not the client. Descriptors that a client sends end its connection. Nothing waits
// until they are closed, which may take as long as the client likes; meanwhile the connection
// counts as the user's.
//
// # Privileges and kernels
//
// The helper needs what probe.Requires returns for its targets, and CAP_SYS_ADMIN to hand
// out read-only descriptors. For the clients' own processes it needs CAP_SETUID and
// CAP_SETGID to take the clients' rights, and the initial process namespace for clients in
// other namespaces. The client needs no privileges from Linux 5.19 on. Older kernels refuse
// even descriptors of maps without CAP_BPF, unless the sysctl
// kernel.unprivileged_bpf_disabled is 0, which the error says. Perf event arrays are useless
// to a client, which may not open the perf events: use ring buffers.
//
// # Overhead
//
// A request takes as long as resolving, loading and attaching. Each event costs a tail call
// and a counter more than without the broker: they enforce the budget whatever the program
// does. Rule.HandOver avoids that cost, and has no budget.
package broker
