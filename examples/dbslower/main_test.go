package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "dbslower", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/queries") }

func TestServer(t *testing.T) {
	if err := run(t.Context(), []string{"oracle"}, tool.NewOutput(new(bytes.Buffer))); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("oracle: %v", err)
	}
}
