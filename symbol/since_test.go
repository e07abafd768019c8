package symbol

import (
	"errors"
	"io/fs"
	"testing"
)

// since is the module of an address in what a process was since a time, or why it has none.
func since(ps *Processes, pid int, at, pc uint64) string {
	st, err := ps.Since(pid, at)
	if errors.Is(err, fs.ErrNotExist) {
		return "not seen"
	}
	return stateNames(st, pc)
}

// libAtApp is a list of mappings with the library where the program is.
const libAtApp = "00400000-00403000 r-xp 00000000 08:01 12 /lib/libx.so"

// TestSince: an address has the name of what its process mapped there until it executed another program,
// and none where it mapped another file there before that.
func TestSince(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 0)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	at := uint64(100)
	ps.monotonic = func() uint64 { return at }
	ps.Follow(true)
	check := func(what string, at, pc uint64, want string) {
		t.Helper()
		if got := since(ps, 7, at, pc); got != want {
			t.Errorf("%s: %#x since %d is %q, want %q", what, pc, at, got, want)
		}
	}
	check("before anything happened", 50, inApp, ofApp)
	at = 200
	tr.maps(7, libAtApp)
	ps.Handle(&Event{Kind: EventExec, PID: 7, Comm: "sh", Time: 200})
	check("the first program", 50, inApp, ofApp)
	check("the first program, to its end", 199, inApp, ofApp)
	check("the first program alone had it", 50, inLib, ofLib)
	check("another program", 200, inApp, ofLib)
	check("another program, later", 250, inApp, ofLib)
	check("the second program has not", 250, inLib, "no mapping")

	ps.Handle(libEvent(300))
	check("mapped where nothing was", 250, inLib, ofLib)
	ps.Handle(appEvent(400))
	check("one file in the place of another", 250, inLib, changed)
	check("the second of them alone", 400, inLib, ofApp)
	check("what remained", 250, inApp, ofLib)

	at = 500
	tr.maps(7, binMap, libMap)
	ps.Handle(&Event{Kind: EventExec, PID: 7, Comm: "sh", Time: 500})
	for since, want := range map[uint64]string{50: ofApp, 250: ofLib, 499: ofLib, 500: ofApp} {
		check("the first program again", since, inApp, want)
	}
}

// TestSinceMissing: an event that is missing leaves the processes their names, as what they had mapped
// before it and have mapped after it is the same, but not those that ended before that was seen.
func TestSinceMissing(t *testing.T) {
	tr := newTree(t)
	for _, pid := range []int{7, 8} {
		tr.stat(pid, "sh", 0)
		tr.maps(pid, binMap, libMap)
	}
	ps, _ := testProcesses(t, tr, nil)
	at := uint64(100)
	ps.monotonic = func() uint64 { return at }
	ps.Follow(true)
	states(t, ps, 7, inApp)
	states(t, ps, 8, inApp)
	delete(tr, "proc/8/stat")
	delete(tr, "proc/8/maps")
	at = 300
	ps.Handle(&Event{Kind: EventLost, Time: 200})
	ps.Handle(&Event{Kind: EventExit, PID: 8, Time: 310})
	for pid, want := range map[int]string{7: ofApp, 8: changed} {
		if got := since(ps, pid, 50, inApp); got != want {
			t.Errorf("process %d: %q, want %q", pid, got, want)
		}
	}
	if got := stateNames(mustProcess(t, ps, 7).During(0, 50, 400), inApp); got != changed {
		t.Errorf("a sample of that time: %q", got)
	}
}

func mustProcess(t *testing.T, ps *Processes, pid int) *Process {
	t.Helper()
	p, err := ps.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSinceNumber: a number is that of the process that had it at the time, also if nobody asked for it
// while it was there; a process that executes nothing after its fork is another one, too.
func TestSinceNumber(t *testing.T) {
	const began = 1e9 // of the first one: 100 clock ticks
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap)
	ps, _ := testProcesses(t, tr, nil)
	ps.monotonic = func() uint64 { return began }
	ps.Follow(true)
	states(t, ps, 7, inApp)
	mapped := func(ev *Event, at, addr uint64) *Event {
		ev.Time, ev.Addr = at, addr
		return ev
	}
	delete(tr, "proc/7/stat")
	delete(tr, "proc/7/maps")
	for _, ev := range []*Event{
		{Kind: EventExit, PID: 7, Time: 200},
		{Kind: EventFork, PID: 7, Parent: 6, Time: 300},
		{Kind: EventExec, PID: 7, Time: 310},
		mapped(libEvent(0), 311, 0x400000),
		{Kind: EventExit, PID: 7, Time: 400},
		{Kind: EventFork, PID: 7, Parent: 6, Time: 500},
		{Kind: EventExec, PID: 7, Time: 510},
		mapped(appEvent(0), 511, 0x400000),
		{Kind: EventExit, PID: 7, Time: 600},
		{Kind: EventFork, PID: 7, Parent: 6, Time: 700},
		{Kind: EventExit, PID: 7, Time: 800},
	} {
		ev.Time += began
		ps.Handle(ev)
	}
	for range 2 { // what the answer to one question keeps is no answer to another
		for _, c := range []struct {
			at   uint64
			want string
		}{{150, ofApp}, {320, ofLib}, {520, ofApp}, {320, ofLib}, {250, "not seen"}, {450, "not seen"}, {750, "not seen"}} {
			if got := since(ps, 7, began+c.at, inApp); got != c.want {
				t.Errorf("at %d: %q, want %q", c.at, got, c.want)
			}
		}
	}
}

// TestDuringNumber: a sample of a process that had a number before another one, both known from events alone,
// is not named by that one, whose time it is not.
func TestDuringNumber(t *testing.T) {
	const began = 2e9 // ns: 200 clock ticks
	tr := newTree(t)
	ps, _ := testProcesses(t, tr, nil)
	ps.monotonic = func() uint64 { return began }
	ps.Follow(true)
	mapped := func(ev *Event, at uint64) *Event {
		ev.Time, ev.Addr = at, 0x400000
		return ev
	}
	for _, ev := range []*Event{
		{Kind: EventFork, PID: 7, Parent: 6, Time: 100},
		{Kind: EventExec, PID: 7, Time: 110},
		mapped(libEvent(0), 111),
		{Kind: EventExit, PID: 7, Time: 200},
		{Kind: EventFork, PID: 7, Parent: 6, Time: 300},
		{Kind: EventExec, PID: 7, Time: 310},
		mapped(appEvent(0), 311),
		{Kind: EventExit, PID: 7, Time: 400},
	} {
		ev.Time += began
		ps.Handle(ev)
	}
	p := mustProcess(t, ps, 7)
	for range 2 {
		for _, c := range []struct {
			start, at uint64
			want      string
		}{
			{200, 150, ofLib},
			{200, 350, ofApp},
			{0, 150, ofLib},
			{0, 350, ofApp},
			{200, 250, "the process ended before it was seen"},
			{0, 250, changed},
		} {
			if got := stateNames(p.During(c.start, began+c.at, began+c.at), inApp); got != c.want {
				t.Errorf("started at %d, at %d: %q, want %q", c.start, c.at, got, c.want)
			}
		}
	}
}
