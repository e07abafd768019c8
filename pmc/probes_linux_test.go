package pmc

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

// calls is counted by a function that is not inlined, so that it can be probed. Nor
// does it check its stack, as it would with the race detector: a function that does
// may begin again, to let others run, and be hit twice.
var calls int

//go:noinline
//go:nosplit
func probed() { calls++ }

// TestUprobePMU: 100 calls of a function of this program are 100 hits of the
// uprobe PMU, whose path an Event carries.
func TestUprobePMU(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseEvent(fmt.Sprintf("uprobe/path=%s,offset=%#x/", exe, fileOffset(t, reflect.ValueOf(probed).Pointer())), nil)
	if err != nil {
		t.Fatal(err)
	}
	lockThread(t)
	c := openAll(t, Scope{}, nil, e)
	for range 100 {
		probed()
	}
	got := read(t, c).Rows[0].Raw
	if got != 100 && (!testenv.InGuest() || got < 100 || got > 102) { // QEMU counts one or two too many
		t.Errorf("%d hits for 100 calls", got)
	}
	e.Path = "/no/such/file"
	if h, err := openEvent(e, onThread(0), nil); err == nil {
		h.close()
		t.Error("a uprobe in a file that does not exist")
	}
}

// fileOffset is where the code at a program counter lies in its file.
func fileOffset(t *testing.T, pc uintptr) uint64 {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var start, end, offset uint64
		var perms string
		if _, err := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &perms, &offset); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if start <= uint64(pc) && uint64(pc) < end {
			return uint64(pc) - start + offset
		}
	}
	t.Fatalf("nothing is mapped at %#x", pc)
	return 0
}

// TestProbe: what Probe says agrees with what opening says.
func TestProbe(t *testing.T) {
	testenv.Need(t, testenv.Root)
	m := Probe(nil)
	by := map[string]Ability{}
	for _, a := range append(m.Events, m.Features...) {
		if a.OK == (a.Reason != "") {
			t.Errorf("%+v", a)
		}
		by[a.What] = a
	}
	hardware := Hardware(nil) == nil
	if by["cycles"].OK != hardware || (m.Clock == "cycles") != by["sampling cycles"].OK {
		t.Errorf("a PMU: %v; cycles: %+v; clock %s", hardware, by["cycles"], m.Clock)
	}
	if fire := feature.Test(feature.Watchpoint) == nil; by["breakpoints"].OK != fire {
		t.Errorf("breakpoints fire: %v; %+v", fire, by["breakpoints"])
	}
	for _, what := range []string{"cpu-clock", "page-faults", "whole CPUs"} {
		if !by[what].OK {
			t.Errorf("%+v", by[what])
		}
	}
	if len(m.PMUs) < 3 || m.Kernel == "" || m.Online == "" || !m.Privileged {
		t.Errorf("%+v", m)
	}
	t.Logf("clock %s, user-space reads %+v", m.Clock, by["user-space reads"])
}
