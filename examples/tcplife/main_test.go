package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"connect": connect})
}

// connect connects 23 times to a server of its own, sends it 64 KiB and closes.
func connect() {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return
	}
	defer l.Close()
	for range 23 {
		client, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return
		}
		server, err := l.Accept()
		if err != nil {
			return
		}
		done := make(chan struct{})
		go func() { io.Copy(io.Discard, server); server.Close(); close(done) }()
		client.Write(make([]byte, 64<<10))
		client.Close()
		<-done
	}
	for open(l.Addr().(*net.TCPAddr).Port) { // packets may be on their way
	}
}

// open says whether there are sockets with that port that are neither closed nor
// the server's.
func open(port int) bool {
	b, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		const timeWait, listen = "06", "0A"
		if len(f) > 3 && f[3] != timeWait && f[3] != listen && strings.Contains(f[1]+" "+f[2]+" ", fmt.Sprintf(":%04X ", port)) {
			return true
		}
	}
	return false
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "tcplife", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/sessions") }

// 23 connections are 23 rows of the client, with 64 KiB sent, and 23 of the
// server, with as much received.
func TestLive(t *testing.T) {
	type row struct {
		PID          int
		LAddr, RAddr string
		LPort, RPort int
		TXKB         int `json:"tx_kb"`
		RXKB         int `json:"rx_kb"`
		MS           float64
	}
	child := tooltest.Start(t, "connect")
	out := tooltest.Live(t, run, []string{"-json", "-4", "-p", strconv.Itoa(child.PID)}, child.Work)
	clients, servers := map[int]bool{}, map[int]bool{}
	for _, r := range tooltest.Objects[row](t, out) {
		switch {
		case r.PID != child.PID || r.LAddr != "127.0.0.1" || r.RAddr != "127.0.0.1" || r.MS <= 0:
			t.Errorf("%+v", r)
		case r.TXKB == 64 && r.RXKB == 0:
			clients[r.LPort] = true
		case r.TXKB == 0 && r.RXKB == 64:
			servers[r.RPort] = true
		}
	}
	for port := range clients {
		if !servers[port] {
			t.Errorf("no server's end of the connection from port %d", port)
		}
	}
	if len(clients) != 23 || len(servers) != 23 {
		t.Errorf("%d clients and %d servers of 23:\n%s", len(clients), len(servers), out)
	}
}

// With the time of day lines are not wider than others, but for the last column.
func TestNarrowWithTime(t *testing.T) {
	for _, flag := range []string{"-T", "-t"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-replay", "testdata/sessions", flag}, tool.NewOutput(&out)); err != nil {
			t.Fatal(err)
		}
		heading := strings.Split(out.String(), "\n")[1]
		if at := strings.LastIndex(heading, "MS"); at < 0 || at >= 79 {
			t.Errorf("%s: the last column begins at %d: %q", flag, at, heading)
		}
	}
}
