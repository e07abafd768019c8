package main

import (
	"reflect"
	"testing"

	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
	"github.com/borescope/borescope/stack/collect"
)

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "stackcount", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/calls", "-d") }

// Without -P a stack is one, whichever processes were in it.
func TestMerged(t *testing.T) {
	sample := func(pid int, comm string, count uint64, kernel ...string) tool.StackSample {
		return tool.StackSample{Sample: collect.Sample{PID: pid, Comm: comm, Count: count}, KernelNames: kernel}
	}
	samples := []tool.StackSample{sample(1, "a", 3, "f", "g"), sample(2, "b", 4, "f", "g"), sample(2, "b", 5, "g")}
	f, g := []string{"f", "g"}, []string{"g"}
	for byPID, want := range map[bool][]counted{
		false: {{Kernel: g, Count: 5}, {Kernel: f, Count: 7}},
		true: {
			{Comm: "a", PID: 1, Kernel: f, Count: 3},
			{Comm: "b", PID: 2, Kernel: f, Count: 4},
			{Comm: "b", PID: 2, Kernel: g, Count: 5},
		},
	} {
		if got := sum(samples, byPID); !reflect.DeepEqual(got, want) {
			t.Errorf("by process %v: %+v, want %+v", byPID, got, want)
		}
	}
}
