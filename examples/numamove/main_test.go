package main

import (
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "numamove", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/moves") }
