package main

import (
	"strconv"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"accept": func() { tooltest.Connect(23) }})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "tcpaccept", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/accepts", "-t") }

type row struct {
	PID, IP, LPort, RPort int
	LAddr, RAddr          string
}

// A child's 23 connections that it accepts are 23 rows.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	child := tooltest.Start(t, "accept")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID), "-P", strconv.Itoa(tooltest.Port)}, child.Work)
	n := 0
	for _, r := range tooltest.Objects[row](t, out) {
		if r.PID == child.PID && r.IP == 4 && r.LAddr == "127.0.0.1" && r.RAddr == "127.0.0.1" && r.LPort == tooltest.Port && r.RPort > 1023 {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d connections of 23:\n%s", n, out)
	}
}
