package check

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// socketCookieSince is the first kernel with bpf_get_socket_cookie in tracing programs.
var socketCookieSince = ir.Version{5, 12}

// socketTypes are types that begin with a struct sock_common, which the helper takes.
var socketTypes = map[string]bool{
	"sock_common": true, "sock": true, "inet_sock": true, "inet_connection_sock": true,
	"inet_timewait_sock": true, "request_sock": true, "tcp_sock": true, "tcp6_sock": true,
	"udp_sock": true, "udp6_sock": true, "unix_sock": true,
}

// socketCookie determines the type of a socket's cookie.
func (c *checker) socketCookie(ptr *typed.Node) (*typed.Node, error) {
	s, _ := StructOf(ptr.Type.Elem).(*btf.Struct)
	if ptr.Type.Kind != ir.KindPtr || ptr.Type.User || s == nil || !socketTypes[s.Name] {
		return nil, fmt.Errorf("%s is not a pointer to the kernel's struct sock", ptr.Type)
	}
	if !c.kern.AtLeast(socketCookieSince) {
		return nil, Unsupported(ir.OpSocketCookie.String(), socketCookieSince,
			"Linux "+c.plan.Kernel+" gives it to no tracing program")
	}
	if c.pp.Type != ebpf.Tracing {
		return nil, Unsupported(ir.OpSocketCookie.String(), socketCookieSince, c.targetName()+
			" is loaded as a program whose arguments the kernel does not type: take fentry or fexit, or a tracepoint with probe.Options.PreferBTF")
	}
	return typed.New(ir.OpSocketCookie, ir.Uint64Type(), ptr), nil
}

// ErrNotArgument is the error for a pointer that the verifier does not trust.
var ErrNotArgument = errors.New(
	"the kernel takes one that is an argument of the probe, not one that was found through pointers")
