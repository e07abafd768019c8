package main

import (
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "opensnoop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/opens", "-TU") }

func TestOpenFlag(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		n, ok := openFlag(arch, "O_DIRECTORY")
		if want := map[string]int{"amd64": 0o200000, "arm64": 0o40000}[arch]; !ok || n != want {
			t.Errorf("%s: %#o", arch, n)
		}
	}
	if _, ok := openFlag("amd64", "O_NOTHING"); ok {
		t.Error("O_NOTHING is a flag")
	}
}
