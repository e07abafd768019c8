package main

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

// What each client sends and receives.
const sends, receives = 64 << 10, 23 << 10

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){
		"IPv4": func() { exchange("tcp4", "127.0.0.1:0") },
		"IPv6": func() { exchange("tcp6", "[::1]:0") },
	})
}

// exchange connects 23 times to a server of its own, and both send.
func exchange(network, address string) {
	l, err := net.Listen(network, address)
	if err != nil {
		panic(err)
	}
	defer l.Close()
	for range 23 {
		client, err := net.Dial(network, l.Addr().String())
		if err != nil {
			panic(err)
		}
		server, err := l.Accept()
		if err != nil {
			panic(err)
		}
		done := make(chan error)
		go func() {
			_, readErr := io.ReadFull(server, make([]byte, sends))
			_, writeErr := server.Write(make([]byte, receives))
			done <- errors.Join(readErr, writeErr, server.Close())
		}()
		_, writeErr := client.Write(make([]byte, sends))
		_, readErr := io.ReadFull(client, make([]byte, receives))
		if err := errors.Join(writeErr, readErr, <-done, client.Close()); err != nil {
			panic(err)
		}
	}
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "tcptop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/sessions") }

// 23 connections have 23 rows of the client, with what it sent and received, and
// 23 of the server, with the reverse.
func TestLive(t *testing.T) { live(t, "IPv4", "127.0.0.1", "-4") }

func TestLiveIPv6(t *testing.T) { live(t, "IPv6", "::1", "-6") }

func live(t *testing.T, work, host, flag string) {
	child := tooltest.Start(t, work)
	out := tooltest.Live(t, run, []string{"-json", flag, "-p", strconv.Itoa(child.PID), "3600"}, child.Work)
	clients, servers := map[string]string{}, map[string]string{}
	for _, r := range tooltest.Objects[struct {
		PID          int
		LAddr, RAddr string
		RX           int `json:"rx_kb"`
		TX           int `json:"tx_kb"`
	}](t, out) {
		local, _, _ := net.SplitHostPort(r.LAddr)
		remote, _, _ := net.SplitHostPort(r.RAddr)
		switch {
		case r.PID != child.PID || local != host || remote != host:
			t.Errorf("%+v", r)
		case r.TX == sends>>10 && r.RX == receives>>10:
			clients[r.LAddr] = r.RAddr
		case r.TX == receives>>10 && r.RX == sends>>10:
			servers[r.RAddr] = r.LAddr
		}
	}
	for client, server := range clients {
		if servers[client] != server {
			t.Errorf("no server's end of the connection from %s", client)
		}
	}
	if len(clients) != 23 || len(servers) != 23 {
		t.Errorf("%d clients and %d servers of 23:\n%s", len(clients), len(servers), out)
	}
}
