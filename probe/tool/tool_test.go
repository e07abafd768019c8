package tool

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/tool/cli"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// parse gives a tool with one flag of each kind its command line.
func parse(args ...string) (t *Tool, pid *int, x *bool, err error) {
	t = New("demo", "Show nothing.", "demo", "all", "demo -x", "some")
	pid, x = t.PID(), t.Bool("x", "some")
	t.Bool("T,timestamp", "times")
	t.Duration()
	t.Interval(time.Second)
	t.Operands("[WORD]", 0, 1)
	return t, pid, x, t.Parse(args, NewOutput(io.Discard))
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args     string
		interval time.Duration
		count    int
		rest     string
	}{
		{"", time.Second, 0, ""},
		{"5", 5 * time.Second, 0, ""},
		{"0.5 10", time.Second / 2, 10, ""},
		{"100ms 3", time.Second / 10, 3, ""},
		{"word 2 3", 2 * time.Second, 3, "word"},
		{"-x word 2 3", 2 * time.Second, 3, "word"},
		{"-xT -p 7 word", time.Second, 0, "word"},
		{"-xTp7 word", time.Second, 0, "word"},
		{"-p7 --timestamp", time.Second, 0, ""},
		{"--pid 7 --interval 3", 3 * time.Second, 0, ""},
	} {
		tl, pid, x, err := parse(strings.Fields(c.args)...)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if tl.interval != c.interval || tl.count != c.count || strings.Join(tl.Args(), " ") != c.rest {
			t.Errorf("%q: every %v, %d times, %q", c.args, tl.interval, tl.count, tl.Args())
		}
		if strings.Contains(c.args, "-x") != *x || strings.Contains(c.args, "7") != (*pid == 7) {
			t.Errorf("%q: -x %v, -p %d", c.args, *x, *pid)
		}
	}
}

// Mistakes are one line and status 2; other errors are one line and status 1.
func TestStatus(t *testing.T) {
	for _, args := range []string{"-z", "-p x", "-p 0", "-p", "a b", "1 0", "1 x", "0", "-d -3", "-x=7", "-xz", "-pword", "--pid", "-Tp", "a b c"} {
		_, _, _, err := parse(strings.Fields(args)...)
		var out bytes.Buffer
		if s := cli.Status("demo", err, &out); s != 2 || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%q: status %d, %q", args, s, out.String())
		}
	}
	var out bytes.Buffer
	if s := cli.Status("demo", errors.New("two\nlines"), &out); s != 1 || out.String() != "demo: two; lines\n" {
		t.Errorf("status %d, %q", s, out.String())
	}
	if cli.Status("demo", nil, &out) != 0 || cli.Status("demo", flag.ErrHelp, &out) != 0 {
		t.Error("success and -h are no success")
	}
}

// The error for too many words names the first that is too many.
func TestUnexpectedArgument(t *testing.T) {
	for args, want := range map[string]string{"a 1 2 3": `"3"`, "a b": `"b"`, "a b c": `"b"`} {
		_, _, _, err := parse(strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), "unexpected argument "+want) {
			t.Errorf("%q: %v, want one about %s", args, err, want)
		}
	}
}

func TestForReplay(t *testing.T) {
	got := forReplay(strings.Fields("-json -record x -p 7 --record=y -v word -- -record"))
	if s := strings.Join(got, " "); s != "-p 7 word -- -record" {
		t.Errorf("%q", s)
	}
}

func print(asJSON bool, fn func(r *Run)) string {
	var out bytes.Buffer
	r := newRun(&Tool{json: asJSON}, NewOutput(&out))
	fn(r)
	r.flush()
	return out.String()
}

func TestTable(t *testing.T) {
	rows := func(r *Run) {
		tab := r.Table("PID %-6d", "COMM %-8s", "LAT(ms) %8.3f", "FLAGS %06o", "PATH %s").Show("FLAGS", false)
		tab.Header()
		tab.Row(uint32(7), action.Comm{'c', 'a', 't'}, 1.5, 8, [8]byte{'/', '\x1b', 'a'})
		tab.Alert(8, "sh", 0.25, 0, "")
		if tab.Row(1); r.out.err == nil || !strings.Contains(r.out.err.Error(), "5 columns: row of 1") {
			t.Errorf("a row with too few values: error of the run %v", r.out.err)
		}
	}
	want := "PID    COMM      LAT(ms) PATH\n" +
		"7      cat         1.500 /?a\n" +
		"8      sh          0.250\n"
	if got := print(false, rows); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	want = `{"pid":7,"comm":"cat","lat_ms":1.5,"path":"/\u001ba"}` + "\n" +
		`{"pid":8,"comm":"sh","lat_ms":0.25,"path":""}` + "\n"
	if got := print(true, rows); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestHist: the row 0 -> 1, which is empty, was printed.
func TestHist(t *testing.T) {
	var h hist.Log2
	h.AddN(3, 5)
	h.Add(9)
	draw := func(r *Run) { r.Hist(&h, "usecs", "disk", "sda") }
	text := print(false, draw)
	if !regexp.MustCompile(`^\ndisk = sda\n +usecs +: count +distribution\n +2 -> 3 +: 5 +\|\*{40}\|\n`).MatchString(text) {
		t.Errorf("%s", text)
	}
	want := `{"disk":"sda","unit":"usecs","buckets":[{"lo":2,"hi":3,"count":5},{"lo":8,"hi":15,"count":1}]}` + "\n"
	if got := print(true, draw); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestLost(t *testing.T) {
	if s := (Lost{}).String(); s != "" {
		t.Errorf("nothing lost is %q", s)
	}
	got := Lost{Events: 3, Firings: 1}.String()
	if got != "Lost: 3 events (the buffer was full), 1 probe firings (left out by the kernel)" {
		t.Errorf("%q", got)
	}
}

// Entries that did not fit into a stream are lost events, whether the body opened it or not;
// all others are lost entries.
func TestLostOfMaps(t *testing.T) {
	l := Lost{Events: 5} // of the stream that was opened
	l.add([]bpf.MapStats{{Name: "opened", Full: 5}, {Name: "unread", Full: 3}, {Name: "counts", Full: 2}},
		map[string]bool{"opened": true, "unread": true, "counts": false})
	if want := (Lost{Events: 8, Entries: 2}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
}

// Objects that are printed at the end of an interval contain its time.
func TestIntervalJSON(t *testing.T) {
	got := print(true, func(r *Run) {
		tab := r.Table("PID %-6d")
		tab.Row(1)
		r.tick, r.ticking = time.Unix(1, 5e8), true
		tab.Row(2)
		r.JSON(struct{}{})
	})
	want := `{"pid":1}` + "\n" + `{"interval_end":"1970-01-01T00:00:01.5Z","pid":2}` + "\n{}\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// events is a source of events without an end.
type events struct{ data []byte }

func (e *events) ReadInto(_ context.Context, rec *mapx.Record) error {
	rec.Data, rec.Remaining = e.data, 1
	return nil
}

func (e *events) Close() error { return nil }

// Reading an event allocates nothing.
func TestNextAllocates(t *testing.T) {
	type event struct{ A, B uint64 }
	r := newRun(&Tool{}, NewOutput(io.Discard))
	r.ctx = t.Context()
	in, err := mapx.NewEvents[event](&events{make([]byte, 16)})
	if err != nil {
		t.Fatal(err)
	}
	e, seen := new(event), 0
	fn := func(*event) error { seen++; return nil }
	if n := testing.AllocsPerRun(100, func() {
		if err := next(r, in, e, fn); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || seen != 101 {
		t.Errorf("%v allocations an event, %d seen", n, seen)
	}
}

// A full disk is an error of the run, not a short output.
func TestFullDisk(t *testing.T) {
	testenv.Need(t, testenv.File("/dev/full"))
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := newRun(&Tool{}, NewOutput(f))
	r.Printf("x\n")
	if err := r.finish(); err == nil {
		t.Error("no error")
	}
}

// A module outside this one builds a tool on this package, with exported names only.
func TestForeignModule(t *testing.T) {
	testenv.Need(t, testenv.Go)
	exe := filepath.Join(t.TempDir(), "forks")
	build := testenv.Command(t, "go", "build", "-C", "testdata/foreign", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly "+os.Getenv("GOFLAGS"), "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := testenv.Command(t, exe, "-h").Output()
	if err != nil || !strings.Contains(string(out), "forks -p 181") {
		t.Errorf("%v: %s", err, out)
	}
}

// The first program that the kernel can run is used, and -v says why the others
// were not.
func TestAlternatives(t *testing.T) {
	testenv.Need(t, testenv.Root)
	count := action.NewCount("calls")
	program := func(name string) *action.Program {
		p := action.NewProgram("demo")
		p.On(probe.Tracepoint{Group: "sched", Name: name}, func(c *action.Ctx) { count.Inc(c) })
		return p
	}
	tl := New("demo", "Count.", "demo", "all")
	var stderr, out bytes.Buffer
	tl.Stderr = NewOutput(&stderr)
	if err := tl.Parse([]string{"-v"}, NewOutput(io.Discard)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	read := false
	body := func(r *Run) error {
		counts, err := Counts(r, count)
		if err != nil {
			return err
		}
		return r.Every(func() error { read = true; _, err := counts(); return err })
	}
	if err := tl.Run(ctx, NewOutput(&out), "Counting", body, program("no_such"), program("sched_switch")); err != nil {
		t.Fatal(err)
	}
	if !read || out.String() != "Counting... Hit Ctrl-C to end.\n" {
		t.Errorf("read %v, printed %q", read, out.String())
	}
	if s := stderr.String(); !strings.Contains(s, "no_such") || !strings.Contains(s, "tracepoint:sched:sched_switch: by ") {
		t.Errorf("-v says %q", s)
	}
	if err := tl.Run(ctx, NewOutput(&out), "Counting", body, program("no_such")); err == nil || !strings.Contains(err.Error(), "no_such") {
		t.Errorf("no program fits: %v", err)
	}
}

// TestUnsafe checks that an address within an instruction is refused, but not with -unsafe.
func TestUnsafe(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	path := probetest.OwnTarget(t) // it is never run
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(syms, func(s elf.Symbol) bool { return s.Name == "add" })
	count := action.NewCount("calls")
	p := action.NewProgram("demo")
	p.On(probe.Uprobe{Path: path, Address: syms[i].Value + 1}, func(c *action.Ctx) { count.Inc(c) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	attach := func(args ...string) error {
		tl := New("demo", "Count.", "demo", "all")
		if err := tl.Parse(args, NewOutput(io.Discard)); err != nil {
			t.Fatal(err)
		}
		return tl.Run(ctx, NewOutput(io.Discard), "Counting", func(*Run) error { return nil }, p)
	}
	if err := attach(); err == nil || !strings.Contains(err.Error(), "lies within the instruction") {
		t.Errorf("without -unsafe: %v", err)
	}
	if err := attach("-unsafe"); runtime.GOARCH == "amd64" && err != nil { // arm64's kernel refuses it, too
		t.Errorf("with -unsafe: %v", err)
	}
}
