package check

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir"
)

// socketCookieSince is when tracing programs got bpf_get_socket_cookie.
var socketCookieSince = ir.Version{5, 12}

// socketTypes begin with a struct sock_common, which is what the helper takes.
var socketTypes = map[string]bool{
	"sock_common": true, "sock": true, "inet_sock": true, "inet_connection_sock": true, "inet_timewait_sock": true,
	"request_sock": true, "tcp_sock": true, "tcp6_sock": true, "udp_sock": true, "udp6_sock": true, "unix_sock": true,
}

// socketCookie types the cookie of a socket.
func (c *Checker) socketCookie(e, ptr *ir.Expr) (*ir.Expr, error) {
	s, _ := StructOf(ptr.Type.Elem).(*btf.Struct)
	if ptr.Type.Kind != ir.KindPtr || ptr.Type.User || s == nil || !socketTypes[s.Name] {
		return nil, fmt.Errorf("%s is no pointer to a struct sock of the kernel's", ptr.Type)
	}
	if !c.Kern.AtLeast(socketCookieSince) {
		return nil, Unsupported(e.Op.String(), socketCookieSince, "Linux "+c.Plan.Kernel+" gives it to no tracing program")
	}
	if c.Pp.Type != ebpf.Tracing {
		return nil, Unsupported(e.Op.String(), socketCookieSince, c.targetName()+
			" is loaded as a program whose arguments the kernel does not type: take fentry or fexit, or a tracepoint with probe.Options.PreferBTF")
	}
	return &ir.Expr{Op: e.Op, Type: ir.Uint64Type(), Args: []*ir.Expr{ptr}, Pos: e.Pos}, nil
}

// ErrNotArgument says that the verifier does not trust a pointer.
var ErrNotArgument = errors.New("the kernel takes one that is an argument of the probe, not one that was found through pointers")
