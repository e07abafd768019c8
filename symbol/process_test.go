package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// tree makes a recorded host tree.
type tree fstest.MapFS

func (tr tree) add(name string, data []byte) { tr[name] = &fstest.MapFile{Data: data, Mode: 0o644} }

// stat writes /proc/PID/stat.
func (tr tree) stat(pid int, comm string, start uint64) {
	s := fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", pid, comm, start)
	tr.add(procPath(pid, "stat"), []byte(s))
}

func (tr tree) maps(pid int, lines ...string) {
	tr.add(procPath(pid, "maps"), []byte(strings.Join(lines, "\n")+"\n"))
}

// names joins the names, or reasons, of frames.
func frameNames(frames []Frame) string {
	var out []string
	for _, f := range frames {
		s := f.Name
		if s == "" {
			s = "(" + f.Reason.String() + ")"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func testProcesses(t *testing.T, tr tree, opts *Options) (*Processes, *time.Time) {
	if opts == nil {
		opts = &Options{}
	}
	opts.Root = fstest.MapFS(tr)
	ps := NewProcesses(opts)
	now := time.Unix(1, 0)
	ps.now = func() time.Time { return now }
	t.Cleanup(func() { ps.Close() })
	return ps, &now
}

const (
	binMap  = "00400000-00403000 r-xp 00000000 08:01 11 /bin/app"
	libMap  = "7f0000000000-7f0000003000 r-xp 00000000 08:01 12 /lib/libx.so"
	jitMap  = "7f1000000000-7f1000010000 rwxp 00000000 00:00 0 "
	heapMap = "7f2000000000-7f2000010000 rw-p 00000000 00:00 0 [heap]"
	vsysMap = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]"
)

func newTree(t *testing.T) tree {
	tr := tree{}
	file := buildELF(t, testFile{syms: testSyms})
	tr.add("bin/app", file)
	tr.add("lib/libx.so", file)
	return tr
}

func TestRecordedProcess(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "a (b) c", 99)
	tr.maps(7, binMap, libMap, jitMap, heapMap, vsysMap)
	tr.add("tmp/perf-7.map", []byte("7f1000000000 100 jitted one\nbad line\n7f1000000080 20 inner\n"))
	ps, _ := testProcesses(t, tr, nil)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	if p.Comm() != "a (b) c" || p.StartTime() != 99 || p.PID() != 7 || p.Exited() {
		t.Errorf("got %q %d %d", p.Comm(), p.StartTime(), p.PID())
	}
	// The file's first segment is .text, at offset 0x1000 of the file.
	pcs := []uint64{
		0x401014, 0x401040, 0x7f0000001014, 0x7f1000000010, 0x7f1000000081, 0x7f1000000200,
		0x7f2000000000, 0xffffffffff600000, 0x10,
	}
	frames := p.Resolve(nil, pcs)
	want := "innermost (no symbol covers the address) innermost jitted one inner (anonymous memory) " +
		"(no mapping) (anonymous memory) (no mapping)"
	if got := frameNames(frames); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i, f := range frames {
		if f.Index != i {
			t.Errorf("frame %d has index %d", i, f.Index)
		}
	}
	if f := frames[2]; f.Module != "/lib/libx.so" || f.ModuleOffset != testText+0x14 || f.Offset != 0 || f.Size != 4 {
		t.Errorf("got %+v", f)
	}
	if frames[3].Kind != KindJIT || frames[0].Kind != KindUser {
		t.Errorf("kinds are %v and %v", frames[3].Kind, frames[0].Kind)
	}
	var dst []Frame
	if n := testing.AllocsPerRun(100, func() { dst = p.Resolve(dst[:0], pcs[:5]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	syms, err := p.Match(Exact("innermost"))
	if err != nil || len(syms) != 2 || syms[0].Addr != 0x401014 || syms[1].Addr != 0x7f0000001014 {
		t.Errorf("Match: %+v %v", syms, err)
	}
}

// TestHugePages names generated code in anonymous huge pages, which /proc shows as
// a deleted file. It was not looked up in the perf map.
func TestHugePages(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "java", 99)
	tr.maps(7, binMap, "7f1000000000-7f1000400000 rwxp 00000000 00:0f 5 /anon_hugepage (deleted)")
	tr.add("tmp/perf-7.map", []byte("7f1000000000 100 Hot.work\n"))
	ps, _ := testProcesses(t, tr, nil)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{0x7f1000000010, 0x7f1000000200})); got != "Hot.work (anonymous memory)" {
		t.Errorf("got %s", got)
	}
}

func TestExitedProcess(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "app", 99)
	tr.maps(7, binMap)
	ps, now := testProcesses(t, tr, nil)
	if err := ps.Observe(7); err != nil {
		t.Fatal(err)
	}
	delete(tr, "proc/7/stat")
	delete(tr, "proc/7/maps")
	*now = now.Add(time.Minute)
	p, err := ps.Process(7)
	if err != nil || !p.Exited() {
		t.Fatalf("got %v, exited %v", err, p.Exited())
	}
	if got := frameNames(p.Resolve(nil, []uint64{0x401014, 16})); got != "innermost (no mapping)" {
		t.Errorf("got %s", got)
	}
	if _, err := ps.Process(8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that never was: %v", err)
	}
	// The number is given to another process.
	tr.stat(7, "other", 500)
	tr.maps(7, libMap)
	q, err := ps.Process(7)
	if err != nil || q == p || q.Comm() != "other" {
		t.Fatalf("got %v", err)
	}
	if got := frameNames(q.Resolve(nil, []uint64{0x401014, 0x7f0000001014})); got != "(no mapping) innermost" {
		t.Errorf("got %s", got)
	}
	if old, err := ps.ProcessAt(7, 99); err != nil || old != p {
		t.Errorf("the first process is lost: %v", err)
	}
	if _, err := ps.ProcessAt(7, 123); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a start time that never was: %v", err)
	}
}

// TestObserveAgain: a process that was first observed amid an exec, when it has no
// mappings, or before one, has names if it is observed again soon after. It was
// looked at only once in a second: what ended within it had none.
func TestObserveAgain(t *testing.T) {
	const onlyStack = "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]"
	for _, before := range []string{onlyStack, libMap} {
		tr := newTree(t)
		tr.stat(7, "app", 99)
		tr.maps(7, before)
		ps, now := testProcesses(t, tr, nil)
		if err := ps.Observe(7); err != nil {
			t.Fatal(err)
		}
		tr.maps(7, binMap)
		*now = now.Add(100 * time.Millisecond)
		if err := ps.Observe(7); err != nil {
			t.Fatal(err)
		}
		delete(tr, "proc/7/stat")
		delete(tr, "proc/7/maps")
		*now = now.Add(time.Minute)
		p, err := ps.Process(7)
		if err != nil {
			t.Fatal(err)
		}
		if got := frameNames(p.Resolve(nil, []uint64{0x401014})); got != "innermost" {
			t.Errorf("before the exec %s: got %s", before, got)
		}
	}
}

// TestGenerations follows a process through exec, dlopen and dlclose, with and
// without events.
func TestGenerations(t *testing.T) {
	tr := newTree(t)
	tr.stat(7, "sh", 99)
	tr.maps(7, binMap)
	ps, now := testProcesses(t, tr, nil)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{0x7f0000001014})); got != "(no mapping)" {
		t.Errorf("before dlopen: %s", got)
	}
	tr.maps(7, binMap, libMap)
	*now = now.Add(missGap)
	if got := frameNames(p.Resolve(nil, []uint64{0x7f0000001014, 0x401014})); got != "innermost innermost" {
		t.Errorf("after dlopen: %s", got)
	}
	tr.maps(7, binMap)
	*now = now.Add(time.Minute)
	if _, err := ps.Process(7); err != nil {
		t.Fatal(err)
	}
	if got := frameNames(p.Resolve(nil, []uint64{0x7f0000001014, 0x401014})); got != "innermost innermost" {
		t.Errorf("after dlclose: %s", got)
	}
	tr.maps(7, "00600000-00603000 r-xp 00000000 08:01 11 /bin/app")
	tr.stat(7, "app", 99)
	ps.Handle(&Event{Kind: EventExec, PID: 7, Comm: "app"})
	if got := frameNames(p.Resolve(nil, []uint64{0x601014})); got != "innermost" || p.Comm() != "app" {
		t.Errorf("after exec: %s", got)
	}
	ps.Handle(&Event{Kind: EventMmap, PID: 7, Addr: 0x7f0000000000, Len: 0x3000, Dev: 8<<32 | 1, Inode: 12, Path: "/lib/libx.so"})
	ps.Handle(&Event{Kind: EventExit, PID: 7})
	if got := frameNames(p.Resolve(nil, []uint64{0x7f0000001014})); got != "innermost" || !p.Exited() {
		t.Errorf("after mmap and exit: %s", got)
	}
}

// TestEventsOnly names a process that was never there to be read.
func TestEventsOnly(t *testing.T) {
	ps, _ := testProcesses(t, newTree(t), nil)
	ps.Handle(&Event{Kind: EventFork, PID: 20, Parent: 1})
	ps.Handle(&Event{Kind: EventExec, PID: 20, Comm: "short"})
	ps.Handle(&Event{Kind: EventMmap, PID: 20, Addr: 0x400000, Len: 0x3000, Path: "/bin/app"})
	ps.Handle(&Event{Kind: EventMmap, PID: 20, Addr: 0x401000, Len: 0x100, Path: "//anon"})
	ps.Handle(&Event{Kind: EventMmap, PID: 20, Addr: 1<<64 - 4096, Len: 1 << 63, Path: "/bin/app"})
	ps.Handle(&Event{Kind: EventFork, PID: 21, Parent: 20})
	for _, pid := range []int{20, 21} {
		p, err := ps.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		if got := frameNames(p.Resolve(nil, []uint64{0x401014, 0x401104})); got != "(anonymous memory) after" {
			t.Errorf("%d: got %s", pid, got)
		}
	}
}

// TestModulesBudget names addresses in 500 processes of 100 files each, and holds the
// budget all the time.
func TestModulesBudget(t *testing.T) {
	testenv.Need(t, testenv.Long)
	tr := tree{}
	const files, procs, budget = 300, 500, 1 << 20
	for i := range files {
		var syms []testSym
		for k := range 256 {
			syms = append(syms, testSym{fmt.Sprintf("file%d_function%d", i, k), at + uint64(16*k), 16, fn, global, false})
		}
		tr.add(fmt.Sprintf("lib/lib%d.so", i), buildELF(t, testFile{syms: syms, buildID: fmt.Appendf(nil, "id%06d", i)}))
	}
	for pid := 1; pid <= procs; pid++ {
		var lines []string
		for m := range 100 {
			n := (pid*7 + m) % files
			base := 0x7f0000000000 + uint64(m)<<20
			lines = append(lines, fmt.Sprintf("%x-%x r-xp 00000000 08:01 %d /lib/lib%d.so", base, base+0x3000, 100+n, n))
		}
		tr.stat(pid, "p", uint64(pid))
		tr.maps(pid, lines...)
	}
	ps, _ := testProcesses(t, tr, &Options{Budget: budget, MaxFiles: 64})
	const kept = procs*(100*mappingSize+200) + files*(imageSize+20) // of mappings and files
	var frames []Frame
	for pid := 1; pid <= procs; pid++ {
		p, err := ps.Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		for m := 0; m < 100; m += 9 {
			n, k := (pid*7+m)%files, (pid+m)%256
			pc := 0x7f0000001000 + uint64(m)<<20 + uint64(16*k) + 3
			frames = p.Resolve(frames[:0], []uint64{pc})
			if want := fmt.Sprintf("file%d_function%d", n, k); frames[0].Name != want || frames[0].Offset != 3 {
				t.Fatalf("pid %d: got %+v, want %s", pid, frames[0], want)
			}
			if s := ps.Stats(); s.Bytes > budget+kept || s.Open > 64 {
				t.Fatalf("%+v is above the budget of %d bytes", s, ps.opts.Budget)
			}
		}
	}
	if s := ps.Stats(); s.Processes != procs || s.Files != files {
		t.Errorf("%+v", s)
	}
}

// TestSameBuildID has two programs that differ in their names alone, of which GNU ld
// makes one build-id: the second had the first one's names.
func TestSameBuildID(t *testing.T) {
	tr := newTree(t)
	for i, name := range []string{"func_of_one", "func_of_two", "func_of_one"} {
		syms := []testSym{{name, at, 0x10, fn, global, false}}
		tr.add(fmt.Sprintf("bin/p%d", i), buildELF(t, testFile{syms: syms, buildID: []byte("same id!")}))
		tr.stat(i+1, "p", 1)
		tr.maps(i+1, strings.Replace(binMap, "11 /bin/app", fmt.Sprintf("%d /bin/p%d", 20+i, i), 1))
	}
	ps, _ := testProcesses(t, tr, nil)
	for i, want := range []string{"func_of_one", "func_of_two", "func_of_one"} {
		p, err := ps.Process(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := frameNames(p.Resolve(nil, []uint64{0x401004})); got != want {
			t.Errorf("process %d: got %s, want %s", i+1, got, want)
		}
	}
}

func TestMaxProcesses(t *testing.T) {
	tr := newTree(t)
	for pid := 1; pid <= 20; pid++ {
		tr.stat(pid, "p", uint64(pid))
		tr.maps(pid, binMap)
	}
	ps, _ := testProcesses(t, tr, &Options{MaxProcesses: 5})
	for pid := 1; pid <= 20; pid++ {
		if err := ps.Observe(pid); err != nil {
			t.Fatal(err)
		}
	}
	if n := ps.Stats().Processes; n != 5 {
		t.Errorf("%d processes are remembered", n)
	}
}

// TestBadFiles names what cannot be named with the reason.
func TestBadFiles(t *testing.T) {
	tr := newTree(t)
	tr.add("bin/app", []byte("#!/bin/sh\n"))
	delete(tr, "lib/libx.so")
	tr.stat(7, "x", 1)
	tr.maps(7, binMap, libMap)
	ps, _ := testProcesses(t, tr, nil)
	p, err := ps.Process(7)
	if err != nil {
		t.Fatal(err)
	}
	want := "(the file is malformed) (the file is gone or cannot be read)"
	if got := frameNames(p.Resolve(nil, []uint64{0x401014, 0x7f0000001014})); got != want {
		t.Errorf("got %s", got)
	}
	ps.Close()
	if _, err := ps.Process(7); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestChain(t *testing.T) {
	m, err := ParsePerfMap(strings.NewReader("10 10 one\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := Chain{unnamed(ReasonExited), m, fixed{Name: "two"}}
	frames := c.Resolve(nil, []uint64{0x15, 0x50})
	if got := frameNames(frames); got != "one two" || frames[1].Index != 1 {
		t.Errorf("got %s", got)
	}
	if got := frameNames(c[:2].Resolve(nil, []uint64{0x50})); got != "("+ReasonExited.String()+")" {
		t.Errorf("got %s", got)
	}
	if got := frameNames(Chain(nil).Resolve(nil, []uint64{1})); got != "(no mapping)" {
		t.Errorf("got %s", got)
	}
}

func FuzzRecorded(f *testing.F) {
	f.Add([]byte(`{"format":"borescope-symbols","version":1}` + "\n" + `{"p":7,"s":9,"a":"10","f":[{"n":"x","o":3,"q":3},{"n":"y"}]}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := ReadRecorded(bytes.NewReader(b))
		if err != nil {
			return
		}
		var one, two bytes.Buffer
		if _, err := rec.WriteTo(&one); err != nil {
			t.Fatal(err)
		}
		again, err := ReadRecorded(bytes.NewReader(one.Bytes()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, one.Bytes())
		}
		if _, err := again.WriteTo(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Fatalf("%v\n%s\n%s", err, one.Bytes(), two.Bytes())
		}
	})
}
