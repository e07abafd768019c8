package probe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
)

// socket opens a packet socket on the interface and attaches the program to it, which
// then sees every packet in and out. Nothing reads from the socket: a filter that
// returns 0 keeps the packets out of it.
func (a *attacher) socket(prog *ebpf.Program, s *Site) error {
	t, ok := s.Target.(SocketFilter)
	if !ok {
		return fmt.Errorf("no socket for %s", s.Target)
	}
	index, err := kernel.InterfaceIndex(t.Interface)
	if err != nil {
		return notexist.Errorf("no interface %s%s", t.Interface,
			near.Hint(t.Interface, kernel.Interfaces()))
	}
	fd, err := kernel.PacketFilter(index, prog.FD())
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("it takes CAP_NET_RAW: %w", err)
	}
	if err != nil {
		return err
	}
	a.keep(held{fd: fd, method: MethodSocket}, *s)
	return nil
}
