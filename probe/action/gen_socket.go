package action

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// socketCookieSince is when tracing programs got bpf_get_socket_cookie.
var socketCookieSince = Version{5, 12}

// socketTypes begin with a struct sock_common, which is what the helper takes.
var socketTypes = map[string]bool{
	"sock_common": true, "sock": true, "inet_sock": true, "inet_connection_sock": true, "inet_timewait_sock": true,
	"request_sock": true, "tcp_sock": true, "tcp6_sock": true, "udp_sock": true, "udp6_sock": true, "unix_sock": true,
}

// socketCookie types the cookie of a socket.
func (c *checker) socketCookie(e, ptr *Expr) (*Expr, error) {
	s, _ := structOf(ptr.Type.Elem).(*btf.Struct)
	if ptr.Type.Kind != KindPtr || ptr.Type.User || s == nil || !socketTypes[s.Name] {
		return nil, fmt.Errorf("%s is no pointer to a struct sock of the kernel's", ptr.Type)
	}
	if !c.kern.AtLeast(socketCookieSince) {
		return nil, unsupported(e.Op.String(), socketCookieSince, "Linux "+c.plan.Kernel+" gives it to no tracing program")
	}
	if c.pp.Type != ebpf.Tracing {
		return nil, unsupported(e.Op.String(), socketCookieSince, c.targetName()+
			" is loaded as a program whose arguments the kernel does not type: take fentry or fexit, or a tracepoint with probe.Options.PreferBTF")
	}
	return &Expr{Op: e.Op, Type: u64, Args: []*Expr{ptr}, Pos: e.Pos}, nil
}

// errNotArgument says that the verifier does not trust a pointer.
var errNotArgument = errors.New("the kernel takes one that is an argument of the probe, not one that was found through pointers")

// socketCookie asks the kernel for a socket's cookie; of none it is 0.
func (g *gen) socketCookie(e *Expr, dst asm.Register) {
	root, off := pointerRoot(e.Args[0], 0)
	if !g.isArgument(root, off) {
		g.fail("%s: %w", e.Op, errNotArgument)
		return
	}
	null, back := g.label(), g.label()
	g.scalar(root, asm.R1)
	g.emit(asm.JEq.Imm(asm.R1, 0, null))
	g.call(asm.FnGetSocketCookie)
	g.place(back)
	g.move(dst, asm.R0)
	g.later(null, func() {
		g.imm(asm.R0, 0)
		g.jump(back)
	})
}
