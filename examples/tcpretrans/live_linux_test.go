package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

const port = 18424

// knock connects to a socket whose backlog is full, so that the kernel drops the
// first segment and sends it again after a second.
func knock() {
	addr := &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	socket := func(flags int) int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|flags, 0)
		if err != nil {
			panic(err)
		}
		return fd
	}
	l := socket(0)
	syscall.SetsockoptInt(l, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Bind(l, addr); err != nil {
		panic(err)
	}
	syscall.Listen(l, 0)
	for range 4 {
		syscall.Connect(socket(syscall.SOCK_NONBLOCK), addr)
	}
	var ts syscall.Timespec
	ts.Sec = 2
	syscall.Nanosleep(&ts, nil)
}

func TestMain(m *testing.M) { tooltest.Main(m, map[string]func(){"knock": knock}) }

// Segments that a full backlog dropped are sent again.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "knock")
	out := tooltest.Live(t, run, []string{"-json"}, child.Work)
	for _, r := range tooltest.Objects[map[string]any](t, out) {
		to, _ := r["raddr_rport"].(string)
		from, _ := r["laddr_lport"].(string)
		if to == "127.0.0.1:18424" && strings.HasPrefix(from, "127.0.0.1:") && r["state"] == "SYN_SENT" && r["ip"] == 4.0 {
			return
		}
	}
	t.Errorf("no retransmit to port %d:\n%s", port, out)
}
