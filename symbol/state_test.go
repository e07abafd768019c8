package symbol

import "testing"

// states resolves an address of a process in several times.
func states(t *testing.T, ps *Processes, pid int, pc uint64, times ...[2]uint64) (names []string) {
	t.Helper()
	p, err := ps.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range times {
		names = append(names, stateNames(p.During(0, at[0], at[1]), pc))
	}
	return names
}

// stateNames is the module of an address in a state, or why it has none.
func stateNames(st State, pc uint64) string {
	f := st.Resolve(nil, []uint64{pc})[0]
	if f.Reason != ReasonNone {
		return f.Reason.String()
	}
	return f.Name + " in " + f.Module
}

const (
	inLib   = 0x7f0000001014
	inApp   = 0x401014
	ofLib   = "innermost in /lib/libx.so"
	ofApp   = "innermost in /bin/app"
	changed = "the process mapped something else there meanwhile"
)

func libEvent(at uint64) *Event {
	return &Event{Kind: EventMmap, PID: 7, Addr: 0x7f0000000000, Len: 0x3000, Dev: 8<<32 | 1, Inode: 12, Path: "/lib/libx.so", Time: at}
}

// appEvent maps the program where the library was.
func appEvent(at uint64) *Event {
	ev := libEvent(at)
	ev.Inode, ev.Path = 11, "/bin/app"
	return ev
}

// TestStates: an address has the name of what was mapped there at the time, and none where that became
// another within it.
func TestStates(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	at := uint64(100)
	ps.monotonic = func() uint64 { return at }
	ps.Follow(true)
	check := func(what string, pc uint64, at [2]uint64, want string) {
		t.Helper()
		if got := states(t, ps, 7, pc, at)[0]; got != want {
			t.Errorf("%s: %#x from %d to %d is %q, want %q", what, pc, at[0], at[1], got, want)
		}
	}
	check("before anything happened", inLib, [2]uint64{50, 150}, ofLib)

	for _, ev := range []*Event{appEvent(200), libEvent(300), appEvent(400)} {
		ps.Handle(ev)
	}
	for _, c := range []struct {
		from, to uint64
		want     string
	}{
		{50, 199, ofLib},
		{200, 299, ofApp},
		{250, 250, ofApp},
		{300, 399, ofLib},
		{400, 900, ofApp},
		{199, 200, changed},
		{150, 350, changed}, // the same at both ends
		{350, 900, changed},
	} {
		check("a library in the place of another", inLib, [2]uint64{c.from, c.to}, c.want)
		check("what remained", inApp, [2]uint64{c.from, c.to}, ofApp)
	}
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	if p.During(0, 201, 203) != p.During(0, 202, 299) || p.During(0, 201, 203) == p.During(0, 301, 302) {
		t.Error("states are not told apart by what came between")
	}
	if p.During(0, 201, 299).Changed(inLib) || !p.During(0, 299, 300).Changed(inLib) || p.During(0, 299, 300).Changed(inApp) {
		t.Error("what came between is not said")
	}
	if got := stateNames(p.During(0, 0, 0), inLib); got != ofApp {
		t.Errorf("at no time it is %q", got)
	}

	memory := libEvent(410)
	memory.Addr, memory.Path, memory.Inode, memory.Dev = 0x600000, "//anon", 0, 0
	ps.Handle(memory)
	again := *memory
	again.Addr, again.Len, again.Time = 0x5ff000, 0x4000, 420
	ps.Handle(&again)
	check("memory in the place of memory", 0x600010, [2]uint64{410, 430}, ReasonAnonymous.String())

	at = 500
	tr.maps(7, "00400000-00403000 r-xp 00000000 08:01 12 /lib/libx.so")
	ps.Handle(&Event{Kind: EventExec, PID: 7, Comm: "sh", Time: 450})
	for _, c := range []struct {
		from, to uint64
		want     string
	}{{400, 449, ofApp}, {450, 450, ofLib}, {449, 450, changed}} {
		check("another program", inApp, [2]uint64{c.from, c.to}, c.want)
	}
	check("only the first program had it", inLib, [2]uint64{440, 460}, ofApp)
	check("the second one does not", inLib, [2]uint64{460, 470}, "no mapping")
}

// TestStatesOfNumber: two processes had the number in turn, and no third.
func TestStatesOfNumber(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap)
	ps, _ := testProcesses(t, tr, nil)
	at := uint64(100)
	ps.monotonic = func() uint64 { return at }
	ps.Follow(true)
	first, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	ps.Handle(&Event{Kind: EventExit, PID: 7, Time: 200})
	tr.stat(7, "sh", 120)
	tr.maps(7, "00400000-00403000 r-xp 00000000 08:01 12 /lib/libx.so")
	at = 300
	second, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Process{first, second} {
		for start, want := range map[uint64]string{99: ofApp, 120: ofLib, 140: ReasonExited.String()} {
			if got := stateNames(p.During(start, 150, 160), inApp); got != want {
				t.Errorf("of the process that started at %d: %q, want %q", start, got, want)
			}
		}
	}
}

// TestStatesOfChildren: a child has what its parent had mapped when it was forked, until it executes a
// program, though it ended before anyone asked for it or its parent.
func TestStatesOfChildren(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 0)
	tr.maps(7, binMap, "7f0000000000-7f0000003000 r-xp 00000000 08:01 11 /bin/app")
	ps, _ := testProcesses(t, tr, nil)
	ps.monotonic = func() uint64 { return max(100, ps.latest) }
	ps.Follow(true)
	event := func(ev *Event, pid int) *Event {
		ev.PID = pid
		return ev
	}
	fork := func(child, parent int, at uint64) *Event {
		return &Event{Kind: EventFork, PID: child, Parent: parent, Time: at}
	}
	for _, ev := range []*Event{
		appEvent(150), // of 7, which nobody has asked for
		fork(8, 7, 200),
		fork(9, 8, 250),
		{Kind: EventExec, PID: 8, Comm: "x", Time: 300},
		event(libEvent(310), 8),
		fork(10, 8, 350),
		{Kind: EventExit, PID: 8, Time: 400},
		{Kind: EventExit, PID: 9, Time: 410},
		{Kind: EventExit, PID: 10, Time: 420},
		fork(8, 7, 500), // the number used again
		{Kind: EventExit, PID: 8, Time: 600},
		fork(12, 11, 700), // of a parent that nobody knows
	} {
		ps.Handle(ev)
	}
	for _, c := range []struct {
		pid  int
		at   [2]uint64
		want string
	}{
		{10, [2]uint64{360, 360}, ofLib},
		{9, [2]uint64{260, 270}, ofApp},
		{9, [2]uint64{260, 410}, ofApp}, // what its parent executed later is nothing to it
		{8, [2]uint64{550, 560}, ofApp},
	} {
		if got := states(t, ps, c.pid, inLib, c.at)[0]; got != c.want {
			t.Errorf("process %d at %d: %q, want %q", c.pid, c.at, got, c.want)
		}
	}
	if _, err := ps.Process(12); err == nil {
		t.Error("a child of nobody is known")
	}
}

// TestStatesUnknown: what came while a process was not known, was told late, or was lost, is not taken
// for what was found afterwards.
func TestStatesUnknown(t *testing.T) {
	exec := func(at uint64) *Event { return &Event{Kind: EventExec, PID: 7, Comm: "sh", Time: at} }
	lost := func(at uint64) *Event { return &Event{Kind: EventLost, Time: at} }
	for _, c := range []struct {
		what          string
		before, after []*Event // its first reading, at 500, when it has the library
		times         [][2]uint64
		want          []string
	}{
		{
			"executed before it was known",
			[]*Event{exec(300)},
			nil,
			[][2]uint64{{200, 250}, {200, 350}, {350, 600}},
			[]string{changed, changed, ofLib},
		},
		{
			"mapped before it was known",
			[]*Event{libEvent(300)},
			nil,
			[][2]uint64{{200, 250}, {350, 600}},
			[]string{changed, ofLib},
		},
		{
			"both, of which all is known",
			[]*Event{exec(200), appEvent(210), exec(300), libEvent(310)},
			nil,
			[][2]uint64{{220, 290}, {320, 600}, {220, 600}, {150, 160}},
			[]string{ofApp, ofLib, changed, changed},
		},
		{
			"by a process that ended before",
			[]*Event{exec(200), appEvent(210), {Kind: EventExit, PID: 7, Time: 300}},
			nil,
			[][2]uint64{{400, 600}},
			[]string{ofLib},
		},
		{
			"executed before, and told afterwards",
			nil,
			[]*Event{exec(300)},
			[][2]uint64{{200, 250}, {350, 600}},
			[]string{changed, ofLib},
		},
		{
			"mapped before, and told afterwards",
			nil,
			[]*Event{libEvent(300)},
			[][2]uint64{{200, 250}, {350, 600}},
			[]string{changed, ofLib},
		},
		{
			"lost, and the same as before",
			nil,
			[]*Event{{Kind: EventMmap, PID: 8, Time: 700}, lost(600)}, // it is read again at 700
			[][2]uint64{{550, 580}, {650, 650}, {590, 710}, {700, 700}},
			[]string{ofLib, changed, changed, ofLib},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			tr := newTree(t)
			tr.stat(7, "sh", 99)
			tr.maps(7, binMap, libMap)
			ps, _ := testProcesses(t, tr, nil)
			ps.monotonic = func() uint64 { return max(500, ps.latest) }
			ps.Follow(true)
			for _, ev := range c.before {
				ps.Handle(ev)
			}
			if _, err := ps.Process(7); err != nil {
				t.Fatal(err)
			}
			for _, ev := range c.after {
				ps.Handle(ev)
			}
			for i, got := range states(t, ps, 7, inLib, c.times...) {
				if got != c.want[i] {
					t.Errorf("at %d: %q, want %q", c.times[i], got, c.want[i])
				}
			}
		})
	}
}

// TestStatesLost: what a process mapped when events were lost is known until then, and again from when
// its mappings were read.
func TestStatesLost(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	at := uint64(100)
	ps.monotonic = func() uint64 { return at }
	ps.Follow(true)
	states(t, ps, 7, inLib, [2]uint64{100, 100})
	tr.maps(7, binMap, "7f0000000000-7f0000003000 r-xp 00000000 08:01 11 /bin/app")
	at = 500
	ps.Handle(&Event{Kind: EventLost, Time: 300})
	times := [][2]uint64{{200, 250}, {350, 400}, {250, 350}, {510, 520}}
	want := []string{ofLib, changed, changed, ofApp}
	for i, got := range states(t, ps, 7, inLib, times...) {
		if got != want[i] {
			t.Errorf("at %d: %q, want %q", times[i], got, want[i])
		}
	}
}

// TestStatesEnded: what a process mapped after events were lost, or told in disorder, is not known if it
// ended before its mappings were read again. It was taken for what was mapped before.
func TestStatesEnded(t *testing.T) {
	for what, missing := range map[string]func(ps *Processes){
		"lost":               func(ps *Processes) { ps.Handle(&Event{Kind: EventLost, Time: 300}) },
		"lost, and followed": func(ps *Processes) { ps.Handle(&Event{Kind: EventLost, Time: 300}); ps.Follow(false) },
		"disorder": func(ps *Processes) {
			ps.Handle(appEvent(310))
			ps.Handle(libEvent(300))
		},
	} {
		tr := newTree(t)
		tr.stat(7, "sh", 99)
		tr.maps(7, binMap, libMap)
		ps, _ := testProcesses(t, tr, nil)
		ps.monotonic = func() uint64 { return 100 }
		ps.Follow(true)
		states(t, ps, 7, inLib, [2]uint64{100, 100})
		delete(tr, "proc/7/stat")
		delete(tr, "proc/7/maps")
		missing(ps)
		ps.Handle(&Event{Kind: EventExit, PID: 7, Time: 500})
		times := [][2]uint64{{200, 250}, {350, 400}, {250, 350}}
		want := []string{ofLib, changed, changed}
		for i, got := range states(t, ps, 7, inLib, times...) {
			if got != want[i] {
				t.Errorf("%s: at %d: %q, want %q", what, times[i], got, want[i])
			}
		}
		ps.Handle(&Event{Kind: EventLost, Time: 600}) // nobody's
		if got := states(t, ps, 7, inLib, [2]uint64{200, 250})[0]; got != ofLib {
			t.Errorf("%s: afterwards: %q", what, got)
		}
	}
}

// TestStatesOverflow: of a process that is asked for late, what came before the events that are still
// there is not known.
func TestStatesOverflow(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	ps.monotonic = func() uint64 { return 1e6 }
	ps.Follow(true)
	for i := range uint64(maxEarlier + 10) {
		ps.Handle(&Event{Kind: EventExec, PID: 8, Comm: "sh", Time: 100 + i})
	}
	times := [][2]uint64{{105, 105}, {120, 130}}
	want := []string{changed, ofLib}
	for i, got := range states(t, ps, 7, inLib, times...) {
		if got != want[i] {
			t.Errorf("at %d: %q, want %q", times[i], got, want[i])
		}
	}
}

// TestStatesForgotten: of a process that changes all the time, the last states are kept, and the rest is
// said to be unknown.
func TestStatesForgotten(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	ps.monotonic = func() uint64 { return 50 }
	ps.Follow(true)
	states(t, ps, 7, inLib, [2]uint64{50, 50})
	const changes = 4 * maxOld
	for i := range uint64(changes) {
		ev := appEvent(100 + 10*i)
		if i%2 == 1 {
			ev = libEvent(100 + 10*i)
		}
		if !ps.Handle(ev) {
			t.Fatalf("event %d changed nothing", i)
		}
	}
	right := 0
	for i := range uint64(changes) {
		got := states(t, ps, 7, inLib, [2]uint64{105 + 10*i, 106 + 10*i})[0]
		switch want := []string{ofApp, ofLib}[i%2]; got {
		case want:
			right++
		case changed:
			if right > 0 {
				t.Errorf("state %d of %d is not known, though an earlier one is", i, changes)
			}
		default:
			t.Errorf("state %d is %q, want %q", i, got, want)
		}
	}
	if right < maxOld {
		t.Errorf("%d states are known, want %d", right, maxOld)
	}
}

// TestStatesUnread: a process that ended before it was asked for is what its events have told, in each of
// its times. Its number may have been another one's before. It was not known.
func TestStatesUnread(t *testing.T) {
	for what, read := range map[string]func(tree){
		"gone":           func(tree) {},
		"on its way out": func(tr tree) { tr.stat(7, "sh", 99); tr.maps(7) },
	} {
		tr := newTree(t)
		ps, _ := testProcesses(t, tr, nil)
		ps.monotonic = func() uint64 { return 1000 }
		ps.Follow(true)
		exit := &Event{Kind: EventExit, PID: 7}
		for i, ev := range []*Event{
			{Kind: EventExec, PID: 7, Comm: "sh"},
			appEvent(0), exit,
			exit, // of one that executed nothing
			{Kind: EventExec, PID: 7, Comm: "sh"},
			appEvent(0), libEvent(0), exit,
		} {
			one := *ev
			one.Time = 100 + 10*uint64(i)
			ps.Handle(&one)
		}
		read(tr)
		times := [][2]uint64{{155, 155}, {160, 170}, {155, 165}}
		want := []string{ofApp, ofLib, changed}
		for i, got := range states(t, ps, 7, inLib, times...) {
			if got != want[i] {
				t.Errorf("%s: at %d: %q, want %q", what, times[i], got, want[i])
			}
		}
		p, err := ps.Process(7)
		if err != nil {
			t.Fatal(err)
		}
		for at, inode := range map[uint64]uint64{155: 11, 165: 12} {
			code := p.During(0, at, at).Code()
			if len(code) != 1 || code[0].Start != 0x7f0000000000 || code[0].End != 0x7f0000003000 || code[0].Inode != inode {
				t.Errorf("%s: at %d: %+v", what, at, code)
			}
		}
	}
	ps, _ := testProcesses(t, newTree(t), nil)
	ps.Handle(&Event{Kind: EventExit, PID: 7})
	if _, err := ps.Process(7); err == nil {
		t.Error("a process that no event describes is known")
	}
}
