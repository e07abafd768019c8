//go:build !linux

package broker

import (
	"net"
	"runtime"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// unsupported returns the error of everything here on systems other than Linux.
func unsupported() error {
	return &probe.UnsupportedError{
		Feature: "broker",
		Hint:    "probes are for Linux, this is " + runtime.GOOS,
	}
}

func peerOf(*net.UnixConn) (Peer, error) { return Peer{}, unsupported() }

func rightsOf(*net.UnixConn, Peer) (rights, error) { return rights{}, unsupported() }

func passing(error) bool { return false }

// gate is nil here.
type gate struct{}

func newGate([]int) (*gate, error)                 { return nil, unsupported() }
func (*gate) put(*ebpf.CollectionSpec, bool) error { return nil }
func (*gate) shut() (bool, error)                  { return false, nil }
func (*gate) close() error                         { return nil }

func attachOptions(bool) *probe.AttachOptions { return nil }

func own(syscall.Conn) (int, error) { return -1, unsupported() }

func closeAside(int, func()) {}

func hungUp(*net.UnixConn) bool { return true }

func shutdown(int) {}

func readMessage(*net.UnixConn, []byte, int) (int, []int, error) { return 0, nil, unsupported() }

func writeMessage(*net.UnixConn, []byte, []int) error { return unsupported() }

func closeFiles([]int) error { return nil }

func gone(error) bool { return true }

func openMap(*ebpf.Map, bool) (int, error) { return -1, unsupported() }

func mapFrom(int) (*ebpf.Map, error) { return nil, unsupported() }
