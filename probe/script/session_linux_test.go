package script_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/output"
)

const sessionText = `
begin { printf("%s %d\n", "begun", 7); }
tracepoint:syscalls:sys_enter_mkdirat /pid == $1/ {
  @modes[args.mode] = count(); @last[comm, tid] = args.mode; @hist = hist(args.mode); @a = avg(args.mode); @n++;
  if (@n == 23) { print(("all", @n)); exit(5); }
}
end { printf("ended\n"); }`

// TestSession: a script's events and maps as values, while it runs and after it has ended.
func TestSession(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	child := startWork(t)
	p := script.MustCompile(t, sessionText, &script.Options{Params: child.params()})
	events := make(chan script.Event, 10)
	s, err := script.Attach(t.Context(), p, &script.AttachOptions{Events: events})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	modes, err := script.Map[uint32, uint64](s, "@modes")
	if err != nil {
		t.Fatal(err)
	}
	if err := child.work(); err != nil {
		t.Fatal(err)
	}
	if status, err := s.Wait(); status != 5 || err != nil {
		t.Errorf("status %d, %v; want 5", status, err)
	}
	var texts []string
	for e := range events {
		texts = append(texts, e.Kind+" "+e.Text)
		if e.Kind == "value" && (e.Line != 5 || len(e.Values) != 1 || e.Values[0].(output.Tuple)[1] != int64(23)) {
			t.Errorf("the event is %+v", e)
		}
	}
	if want := []string{"printf begun 7\n", "value (all, 23)\n", "printf ended\n"}; !slices.Equal(texts, want) {
		t.Errorf("events are %q, want %q", texts, want)
	}
	snap, err := modes.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint32]uint64{}
	for _, e := range snap.Entries {
		got[e.Key] = e.Value
	}
	if len(got) != 2 || got[0o700] != 13 || got[0o755] != 10 {
		t.Errorf("modes are %v", got)
	}
	type thread struct {
		Comm string
		TID  uint32
	}
	last, err := script.Map[thread, int64](s, "@last")
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := last.Snapshot(); err != nil || len(snap.Entries) != 1 || snap.Entries[0].Key.Comm != "scriptwork" || snap.Entries[0].Value != 0o700 {
		t.Errorf("last is %v, %v", snap, err)
	}
	h, err := script.Map[struct{}, hist.Distribution](s, "@hist")
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := h.Snapshot(); err != nil || len(snap.Entries) != 1 || snap.Entries[0].Value == nil {
		t.Errorf("hist is %v, %v", snap, err)
	}
	if list, err := s.Entries("@a"); err != nil || len(list) != 1 || list[0].Value.(mapx.Average).Count != 23 {
		t.Errorf("a is %v, %v", list, err)
	}
	if st, lost, err := s.Stats(); err != nil || lost != 0 || st.Full != 0 {
		t.Errorf("%+v, %d lost, %v", st, lost, err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := modes.Snapshot(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestComm: the name of another process.
func TestComm(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	prints(t, script.MustCompile(t, `begin { printf("%s %s\n", comm($1), comm(-1)); }`, &script.Options{
		Params: []string{strconv.Itoa(os.Getpid())},
	}), strings.TrimSpace(string(name))+" N/A\n\n\n")
}

// TestSessionTypes: Go's types that do not hold those of the script are refused.
func TestSessionTypes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	p := script.MustCompile(t, sessionText, &script.Options{Params: []string{"1"}})
	s, err := script.Attach(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want, open := range map[string]func() error{
		"key of @modes: a uint":                                func() error { _, err := script.Map[uint8, uint64](s, "@modes"); return err },
		"value of @modes: a coun":                              func() error { _, err := script.Map[uint64, string](s, "@modes"); return err },
		"key of @last: a (string[16],uint32) is a struct":      func() error { _, err := script.Map[string, any](s, "@last"); return err },
		"value of @hist: a hist":                               func() error { _, err := script.Map[struct{}, uint64](s, "@hist"); return err },
		"key of @n: it has no ke":                              func() error { _, err := script.Map[int, int64](s, "@n"); return err },
		"the script has no map @mode; did you mean \"@modes\"": func() error { _, err := s.Entries("@mode"); return err },
	} {
		if err := open(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := script.Map[any, any](s, "@last"); err != nil {
		t.Error(err)
	}
}

// TestSessionEnds: the end of the context and Close end a script, whose end probes run, and nothing
// of it is left; an attachment that fails leaves nothing either.
func TestSessionEnds(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `interval:s:1000 { } end { printf("ended\n"); }`
	for _, byContext := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan script.Event, 1)
		s, err := script.Attach(ctx, script.MustCompile(t, text, nil), &script.AttachOptions{Events: events})
		if err != nil {
			t.Fatal(err)
		}
		if byContext {
			cancel()
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
		if e := <-events; e.Text != "ended\n" {
			t.Errorf("the event is %+v", e)
		}
		if _, err := s.Wait(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := script.Attach(ended, script.MustCompile(t, text, nil), nil); err == nil {
		t.Error("attached although the context had ended")
		s.Close()
	}
}

// TestSessionDeaf: a session whose events nobody receives can be closed.
func TestSessionDeaf(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	const text = `begin { printf("first\n"); printf("second\n"); } interval:ms:1 { printf("more\n"); }`
	events := make(chan script.Event)
	s, err := script.Attach(t.Context(), script.MustCompile(t, text, nil), &script.AttachOptions{Events: events})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Text != "first\n" {
		t.Errorf("the event is %+v", e)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, more := <-events; more {
		t.Error("events come after Close")
	}
}

// TestSessionShort: a script that ends at once is attached as others are. Attach returned neither a
// session nor an error when it had ended before Attach looked.
func TestSessionShort(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	p := script.MustCompile(t, `begin { @n = 7; exit(3); }`, nil)
	for range 30 {
		s, err := script.Attach(t.Context(), p, nil)
		if err != nil || s == nil {
			t.Fatalf("%v, %v", s, err)
		}
		status, err := s.Wait()
		list, readErr := s.Entries("@n")
		if status != 3 || err != nil || readErr != nil || len(list) != 1 || list[0].Value != int64(7) {
			t.Errorf("status %d, %v; %v, %v", status, err, list, readErr)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSessionDisabled: a session is switched off and on again; its begin and end probes run in any case.
func TestSessionDisabled(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	p := script.MustCompile(t, `begin { @begun = count(); }
		tracepoint:syscalls:sys_enter_getppid /pid == $1/ { @n = count(); }
		end { @ended = count(); }`, &script.Options{Params: []string{strconv.Itoa(os.Getpid())}, IncludeSelf: true})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := script.Attach(ctx, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, off := range []bool{true, false, true} {
		if err := s.SetDisabled(off); err != nil {
			t.Fatal(err)
		}
		for range 23 {
			os.Getppid()
		}
	}
	cancel()
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"@begun": 1, "@n": 23, "@ended": 1} {
		if got, err := s.Entries(name); err != nil || len(got) != 1 || got[0].Value != want {
			t.Errorf("%s is %v, %v; want %d", name, got, err, want)
		}
	}
	if err := errors.Join(s.SetDisabled(true), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.SetDisabled(false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed session: %v", err)
	}
}

// TestBudget: a script's budget is enforced in the kernel, and what is left out is counted.
func TestBudget(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	child := startWork(t)
	p := script.MustCompile(t, `tracepoint:syscalls:sys_enter_mkdirat /pid == $1/ { @n = count(); printf("x"); }`,
		&script.Options{Params: child.params(), Budget: ir.Budget{EventsPerSecond: 1}})
	s, err := script.Attach(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := child.work(); err != nil {
		t.Fatal(err)
	}
	st, lost, err := s.Stats()
	if err != nil || st.Limited == 0 || st.Limited >= 23 || lost != 0 {
		t.Errorf("limited %d of 23, lost %d, %v", st.Limited, lost, err)
	}
	if got, err := s.Entries("@n"); err != nil || len(got) != 1 || got[0].Value != uint64(23) {
		t.Errorf("@n is %v, %v", got, err)
	}
	_, err = script.Compile("x", `begin { @n[1] = count(); }`, &script.Options{Budget: ir.Budget{MapBytes: 1}})
	if err == nil || !strings.Contains(err.Error(), "budget") {
		t.Errorf("more memory than the budget has: %v", err)
	}
}

// TestSessionLosses: what a session lost is the last of its events.
func TestSessionLosses(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf)
	events := make(chan script.Event, 10)
	p := script.MustCompile(t, `config = { max_map_keys = 1 } begin { @[1] = 1; @[2] = 2; print("printed"); }`, nil)
	s, err := script.Attach(t.Context(), p, &script.AttachOptions{Events: events})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var last script.Event
	for e := range events {
		last = e
	}
	if last.Kind != "warning" || !strings.HasPrefix(last.Text, "WARNING: Map full; can't update element (1 times).") {
		t.Errorf("the last event is %+v", last)
	}
}
