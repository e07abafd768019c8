package main

import (
	"strconv"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"connect": func() { tooltest.Connect(23) }})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "tcpconnect", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/connects", "-t") }

type row struct {
	PID, IP, DPort, RPort, Connects int
	SAddr, DAddr, RAddr             string
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
