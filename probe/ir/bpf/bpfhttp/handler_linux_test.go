package bpfhttp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf/bpfhttp"
)

// mark is the number of no system call, which the programs count: even, unlike those of package
// action's tests.
const mark = 1 << 24

func get(t *testing.T, s *httptest.Server, path string) (status int, kind, body string) {
	t.Helper()
	r, err := s.Client().Get(s.URL + "/debug/maps/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header.Get("Content-Type"), string(b)
}

type who struct {
	Comm action.Comm
	N    uint32
}

// program counts this process's marks, in tables of several kinds.
func program() *action.Program {
	p := action.NewProgram("pages")
	p.IncludeSelf = true
	total, by := action.NewCount("total"), action.NewCounter[who]("by", 64)
	sizes, steps := action.NewHist[action.None]("sizes", 1), action.NewLinear[uint32]("steps", 64, 0, 10, 5)
	stats, state := action.NewStats[uint32]("stats", 8), action.NewHash[uint32, int64]("state", 8)
	names := action.NewHash[uint32, action.Comm]("names", 8)
	type event struct{ A uint32 }
	events := action.NewEvents[event]("events", 0)
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Arg(1).Eq(mark))
		regs := c.Arg(0).PtrTo("struct pt_regs", false)
		n := regs.Member("di")
		total.Inc(c)
		by.Inc(c, c.Comm(), n.And(1))
		sizes.Observe(c, n)
		steps.Observe(c, n, 7)
		stats.Observe(c, n, 1)
		state.Set(c, 3, n.Sub(100))
		names.Set(c, 4, c.Comm())
		events.Emit(c, func(*event, *action.Bind) {})
	})
	return p
}

// TestHandler: every table is on the page, exact, as text and as JSON; what a name holds that a
// terminal acts on is not.
func TestHandler(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Arch("amd64"))
	own := &action.Options{Resolve: &probe.Options{Filter: &probe.Filter{PIDs: []int{os.Getpid()}}}}
	s, err := action.Attach(program(), own)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, err := bpfhttp.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/debug/maps/", h))
	defer server.Close()
	named(t, "ev\x1bil\n", func() {
		for i := range uintptr(23) {
			_, _, _ = syscall.RawSyscall(mark, i, 0, 0)
		}
	})
	status, kind, text := get(t, server, "")
	want := `program pages

@total: 23

@by[ev?il?, 1]: 11
@by[ev?il?, 0]: 12

@sizes:
[0]                    1 |@@@@@@                                              |
[1]                    1 |@@@@@@                                              |
[2, 4)                 2 |@@@@@@@@@@@@@                                       |
[4, 8)                 4 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[8, 16)                8 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[16, 32)               7 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@       |

@steps[7]:
[0, 5)                 5 |@@@@@@@@@@@@@@@@@@@@                                |
[5, 10)                5 |@@@@@@@@@@@@@@@@@@@@                                |
[10, ...)             13 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@stats[1]: count 23, average 11.0, total 253, min 0, max 22

@state[3]: -78

@names[4]: ev?il?
`
	if status != http.StatusOK || kind != "text/plain; charset=utf-8" || text != want {
		t.Errorf("%d %s\n%s\nwant\n%s", status, kind, text, want)
	}
	if _, _, text := get(t, server, "by?top=1"); text != "@by[ev?il?, 0]: 12\n(the largest 1 of 2)\n" {
		t.Errorf("the largest:\n%s", text)
	}
	_, kind, text = get(t, server, "?format=json&top=1")
	var page struct {
		Program string
		Tables  []struct {
			Name, Kind, Counts string
			Size               int
			Entries            []struct{ Key, Value any }
		}
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil || kind != "application/json" {
		t.Fatalf("%s %v\n%s", kind, err, text)
	}
	var lines []string
	for _, table := range page.Tables {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %q", table.Name, table.Kind, table.Counts, table.Size, fmt.Sprint(table.Entries)))
	}
	wantLines := `total percpu_hash count 1 "[{<nil> 23}]"
by percpu_hash count 2 "[{[ev\x1bil\n 0] 12}]"
sizes percpu_hash hist 1 "[{<nil> [map[count:1 max:0 min:0] map[count:1 max:1 min:1] map[count:2 max:3 min:2] map[count:4 max:7 min:4] map[count:8 max:15 min:8] map[count:7 max:31 min:16]]}]"
steps percpu_hash lhist 1 "[{7 [map[count:5 max:4 min:0] map[count:5 max:9 min:5] map[count:13 max:9.223372036854776e+18 min:10]]}]"
stats percpu_hash stats 1 "[{1 map[count:23 max:22 min:0 sum:253]}]"
state hash  1 "[{3 -78}]"
names hash  1 "[{4 ev\x1bil\n}]"`
	if got := strings.Join(lines, "\n"); got != wantLines || strings.Contains(text, "\x1b") {
		t.Errorf("%s\nwant\n%s", got, wantLines)
	}
	for path, want := range map[string]int{
		"nosuch": 404, "events": 404, "by?top=0": 400, "by?top=x": 400, "by?format=xml": 400, "by": 200,
	} {
		if status, _, body := get(t, server, path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
	}
	r, err := server.Client().Post(server.URL+"/debug/maps/by", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v", r.Status)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, body := get(t, server, ""); status != http.StatusInternalServerError || !strings.Contains(body, "closed") {
		t.Errorf("after Close: %d %s", status, body)
	}
}

// named gives this thread a name while f runs.
func named(t *testing.T, name string, f func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, and the name with it
		b := append([]byte(name), 0)
		if err = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0); err == nil {
			f()
		}
	}()
	if <-done; err != nil {
		t.Fatal(err)
	}
}

// Whoever reaches the page sees other processes only if the caller says so.
func TestOthers(t *testing.T) {
	testenv.Need(t, testenv.Root)
	attach := func(o *action.Options) *action.Session {
		n := action.NewCount("n")
		p := action.NewProgram("others")
		p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
			c.ReturnUnless(c.Arg(1).Eq(mark))
			n.Inc(c)
		})
		s, err := action.Attach(p, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	filter := func(pids ...int) *action.Options {
		return &action.Options{Resolve: &probe.Options{Filter: &probe.Filter{PIDs: pids}}}
	}
	for _, none := range []bpfhttp.Program{nil, (*action.Session)(nil)} {
		if _, err := bpfhttp.New(none, nil); err == nil {
			t.Error("no program is served")
		}
	}
	for name, c := range map[string]struct {
		o    *action.Options
		said bool
	}{
		"all": {nil, false}, "others too": {filter(os.Getpid(), 1), false}, "another": {filter(1), false},
		"all, said": {nil, true},
	} {
		_, err := bpfhttp.New(attach(c.o), &bpfhttp.Options{Others: c.said})
		if (err == nil) != c.said || err != nil && !strings.Contains(err.Error(), "set Options.Others") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
