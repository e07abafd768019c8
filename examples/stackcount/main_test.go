package main

import (
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "stackcount", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/calls", "-d") }
