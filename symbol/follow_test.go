package symbol

import (
	"io/fs"
	"strings"
	"testing"
	"time"
)

// reads counts how often a file of a tree is opened.
type reads struct {
	fs.FS
	of string
	n  *int
}

func (r reads) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, r.of) {
		*r.n++
	}
	return r.FS.Open(name)
}

// TestFollow: processes that are followed are read once, and again after something was lost, came
// late, or does not fit: their age has nothing to do with it.
func TestFollow(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap)
	tr.stat(8, "sh", 98)
	tr.maps(8, binMap)
	ps, now := testProcesses(t, tr, nil)
	n, at := 0, uint64(100)
	ps.root, ps.monotonic = reads{ps.root, "7/maps", &n}, func() uint64 { return at }
	both := "innermost innermost"
	step := func(what, names string, read int, versions bool) {
		t.Helper()
		*now = now.Add(time.Hour)
		p, err := ps.Process(7)
		if err != nil {
			t.Fatal(err)
		}
		before := p.Version()
		if got := frameNames(p.Resolve(nil, []uint64{0x7f0000001014, 0x401014})); got != names || n != read {
			t.Errorf("%s: %s, read %d times; want %s, %d", what, got, n, names, read)
		}
		if (before != 0) != versions {
			t.Errorf("%s: version %d", what, before)
		}
		n = 0
	}
	lib := Event{Kind: EventMmap, PID: 7, Addr: 0x7f0000000000, Len: 0x3000, Dev: 8<<32 | 1, Inode: 12, Path: "/lib/libx.so"}
	handle := func(ev Event, at uint64, want bool) {
		t.Helper()
		if ev.Time = at; ps.Handle(&ev) != want {
			t.Errorf("%+v: changed is %v", ev, !want)
		}
	}
	none := "(no mapping) innermost"
	step("read by age", none, 1, false)
	step("read by age", none, 1, false)
	ps.Follow(true)
	step("the first time", none, 1, true)
	step("for an address that is in nothing", none, 1, true)
	handle(lib, 99, false)
	step("what it had before it was read", none, 1, true)
	p, _ := ps.Process(7)
	version := p.Version()
	handle(lib, 200, true)
	step("what it maps later", both, 0, true)
	if p.Version() == version {
		t.Error("it maps something else, and has the same version")
	}
	version = p.Version()
	handle(lib, 250, false)
	step("what it has already", both, 0, true)
	if p.Version() != version {
		t.Error("it maps the same, and has another version")
	}
	tr.maps(7, binMap, libMap)
	at = 400
	handle(lib, 240, true)
	step("a late event", both, 1, true)
	step("after that", both, 0, true)
	handle(Event{Kind: EventLost}, 500, false)
	if n != 1 {
		t.Errorf("read %d times when events were lost", n)
	}
	step("a lost event", both, 1, true)
	handle(Event{Kind: EventMmap, PID: 8, Addr: 0x400000, Len: 0x1000, Path: "/lib/libx.so"}, 600, false)
	if ps.byPID[8] != nil {
		t.Error("a process that nobody asked for is known")
	}
	tr.maps(7, "00600000-00603000 r-xp 00000000 08:01 11 /bin/app")
	handle(Event{Kind: EventExec, PID: 7, Comm: "sh"}, 700, true)
	if n != 1 {
		t.Errorf("read %d times after an exec", n)
	}
	if got := frameNames(p.Resolve(nil, []uint64{0x601014, 0x401014})); got != both {
		t.Errorf("after an exec of the same name: %s", got)
	}
	n = 0
	ps.Follow(false)
	tr.maps(7, binMap, libMap)
	step("not followed any more", both, 1, false)
}

// TestFollowOtherFile: another file of the same name in the same place is another file.
func TestFollowOtherFile(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	ps.Follow(true)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	version := p.Version()
	same := Event{Kind: EventMmap, PID: 7, Addr: 0x7f0000000000, Len: 0x1000, Dev: 8<<32 | 1, Inode: 12, Path: "/lib/libx.so"}
	for _, c := range []struct {
		what string
		edit func(*Event)
		want bool
	}{
		{"the same", func(*Event) {}, false},
		{"a part of it", func(e *Event) { e.Addr += 0x1000; e.Offset += 0x1000 }, false},
		{"another part in its place", func(e *Event) { e.Offset += 0x1000 }, true},
		{"another inode", func(e *Event) { e.Inode++ }, true},
		{"memory", func(e *Event) { e.Path, e.Inode, e.Dev = "//anon", 0, 0 }, true},
		{"the same memory", func(e *Event) { e.Path, e.Inode, e.Dev = "//anon", 0, 0 }, false},
	} {
		ev := same
		c.edit(&ev)
		if got := ps.Handle(&ev); got != c.want || (p.Version() != version) != c.want {
			t.Errorf("%s: changed is %v, version %d after %d", c.what, got, p.Version(), version)
		}
		version = p.Version()
	}
}
