package probe

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/spelling"
)

// SocketFilter fires for every packet that an interface sends or receives. It is the filter
// of a packet socket that is bound to the interface. "socket:eth0".
type SocketFilter struct {
	Interface string // interface name, in this process's network namespace
}

func (SocketFilter) requires(q *requirer) { q.capability("CAP_NET_RAW", "packet sockets") }

func (t SocketFilter) list(l *lister) error { return l.put(Match{Target: t}) }

func (SocketFilter) word() string { return "socket" }

// String returns "socket:INTERFACE".
func (t SocketFilter) String() string { return "socket:" + spelling.Quote(t.Interface) }

func (t SocketFilter) resolve(r *resolver) error {
	if t.Interface == "" {
		return errors.New("it names no interface")
	}
	r.add(ProgramPlan{
		Type: ebpf.SocketFilter, Context: ContextSocket, Method: MethodSocket,
		Sites: []Site{{Target: t, CPU: -1}},
	})
	return nil
}

var socketSpelled = spelled{
	words: []string{"socket"},
	parse: single("socket:INTERFACE", func(name string) Target {
		return SocketFilter{Interface: name}
	}),
}
