package main

import (
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){
		"connect": func() { tooltest.Connect(23) },
		"look up": lookUp,
	})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "tcpconnect", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/connects", "-t") }

type row struct {
	PID, IP, LPort, DPort, RPort, Connects int
	SAddr, DAddr, RAddr, Query             string
}

// A child's 23 connections are 23 rows, and with -c a row of 23.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "connect")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID), "-P", strconv.Itoa(tooltest.Port)}, child.Work)
	want := row{PID: child.PID, IP: 4, SAddr: "127.0.0.1", DAddr: "127.0.0.1", DPort: tooltest.Port}
	n := 0
	for _, r := range tooltest.Objects[row](t, out) {
		if r == want {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d connections of 23:\n%s", n, out)
	}
}

func TestLiveCount(t *testing.T) {
	child := tooltest.Start(t, "connect")
	out := tooltest.Live(t, run, []string{"-json", "-c", "-p", strconv.Itoa(child.PID)}, child.Work)
	rows := tooltest.Objects[row](t, out)
	if len(rows) != 1 || rows[0].RAddr != "127.0.0.1" || rows[0].RPort != tooltest.Port || rows[0].Connects != 23 {
		t.Errorf("%s", out)
	}
}

const host = "tcpconnect.test"

// lookUp asks a name server of its own for a name, and connects 23 times to what
// it says.
func lookUp() {
	server, err := net.ListenPacket("udp4", "127.0.0.153:53")
	if err != nil {
		panic(err)
	}
	client, err := net.Dial("udp4", server.LocalAddr().String())
	if err != nil {
		panic(err)
	}
	client.Write([]byte("a question"))
	_, from, err := server.ReadFrom(make([]byte, answerSize))
	if err != nil {
		panic(err)
	}
	server.WriteTo(dnsAnswer(7, host, netip.MustParseAddr("127.0.0.1")), from)
	client.Read(make([]byte, answerSize))
	tooltest.Connect(23)
}

// With -d and -L the connections have the name that was looked up, and each a
// local port of its own.
func TestLiveNames(t *testing.T) {
	child := tooltest.Start(t, "look up")
	out := tooltest.Live(t, run, []string{"-json", "-dL4", "-p", strconv.Itoa(child.PID)}, child.Work)
	ports := map[int]bool{}
	for _, r := range tooltest.Objects[row](t, out) {
		if r.PID == child.PID && r.DAddr == "127.0.0.1" && r.Query == host && r.LPort > 0 {
			ports[r.LPort] = true
		}
	}
	if len(ports) != 23 {
		t.Errorf("%d connections of 23:\n%s", len(ports), out)
	}
}
