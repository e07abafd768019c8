package collecthttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/collect/collecthttp"
	"github.com/borescope/borescope/stack/profile"
)

var sink int

// Under the race detector an instrumented loop would be in its C code instead.
//
//go:noinline
//go:norace
func busy(until time.Time) {
	for time.Now().Before(until) {
		for range 1_000_000 {
			sink++
		}
	}
}

// serve returns a server for the profiles of what the options select.
func serve(t *testing.T, o *collect.Options, h *collecthttp.Options) (*httptest.Server, *collecthttp.Handler, *collect.Profiler) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Perf)
	clock, err := pmc.ParseEvent("cpu-clock", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := collect.Attach([]probe.Target{probe.Perf{Event: clock, Freq: 499}}, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := collect.NewProfiler(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	handler := collecthttp.New(p, h)
	t.Cleanup(func() { handler.Close() })
	s := httptest.NewServer(http.StripPrefix("/debug/stacks/", handler))
	t.Cleanup(s.Close)
	return s, handler, p
}

func get(t *testing.T, s *httptest.Server, path string) (status int, kind, body string) {
	t.Helper()
	r, err := s.Client().Get(s.URL + "/debug/stacks/" + path)
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

// What this process did is on every page, and go tool pprof reads it; what other processes did
// is on none.
func TestHandler(t *testing.T) {
	other := testenv.Command(t, "/proc/self/exe", "-test.run=^TestBusy$")
	other.Env = append(os.Environ(), "COLLECTHTTP_BUSY=1")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	s, h, p := serve(t, &collect.Options{IncludeSelf: true, Windows: true},
		&collecthttp.Options{Window: 50 * time.Millisecond, Title: "a <service>"})
	busy(time.Now().Add(500 * time.Millisecond))
	for range 200 { // until the first names have been read
		if _, _, body := get(t, s, "folded"); strings.Contains(body, "busy") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for path, want := range map[string][2]string{
		"":                  {"text/html; charset=utf-8", "a &lt;service&gt;"},
		"flame?seconds=60":  {"text/html; charset=utf-8", "collecthttp_test.busy"},
		"flame.svg":         {"image/svg+xml", "collecthttp_test.busy ("},
		"folded":            {"text/plain; charset=utf-8", "collecthttp_test.busy "},
		"folded?seconds=60": {"text/plain; charset=utf-8", "collecthttp_test.busy "},
	} {
		status, kind, body := get(t, s, path)
		if status != http.StatusOK || kind != want[0] || !strings.Contains(body, want[1]) {
			t.Errorf("%s: %d %s, want %q in:\n%.2000s", path, status, kind, want[1], body)
		}
		if strings.Contains(body, "neighbour") {
			t.Errorf("%s shows another process:\n%.2000s", path, body)
		}
	}
	status, _, body := get(t, s, "profile")
	if status != http.StatusOK || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("profile: %d %.20q", status, body)
	}
	t.Run("pprof", func(t *testing.T) { pprof(t, s.URL+"/debug/stacks/profile?seconds=10") })
	all, err := h.Profile(0)
	if err != nil {
		t.Fatal(err)
	}
	recent, err := h.Profile(100 * time.Millisecond)
	if err != nil || recent.Duration < min(100*time.Millisecond, all.Duration) || recent.Duration > time.Minute {
		t.Errorf("the last 100 ms of %v are %v, %v", all.Duration, recent.Duration, err)
	}
	for path, want := range map[string]int{"nosuch": 404, "flame?seconds=-1": 400, "flame?seconds=x": 400} {
		if status, _, body := get(t, s, path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
	}
	// go tool pprof wanted names of a file without symbols from the service, and ended.
	asked, err := s.Client().Post(s.URL+"/debug/stacks/symbolz", "text/plain", strings.NewReader("0x1+0x2"))
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(asked.Body)
	asked.Body.Close()
	if asked.StatusCode != http.StatusOK || string(answer) != "num_symbols: 1\n" {
		t.Errorf("symbolz: %s %q", asked.Status, answer)
	}
	r, err := s.Client().Post(s.URL+"/debug/stacks/", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v", r.Status)
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if status, _, _ := get(t, s, "folded"); status != http.StatusOK {
		t.Errorf("after Close: %d", status)
	}
}

// pprof has go tool pprof fetch a profile.
func pprof(t *testing.T, url string) {
	t.Helper()
	testenv.Need(t, testenv.Go)
	cmd := testenv.Command(t, "go", "tool", "pprof", "-top", "-nodecount=5", url)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "collecthttp_test.busy") || !strings.Contains(string(out), "Type: cpu") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// neighbour is what the other process does.
//
//go:noinline
//go:norace
func neighbour() {
	for {
		sink++
	}
}

// TestBusy is the other process.
func TestBusy(t *testing.T) {
	if os.Getenv("COLLECTHTTP_BUSY") != "" {
		neighbour()
	}
}

// With Others every process is shown; what is older than Keep is forgotten.
func TestOthers(t *testing.T) {
	other := testenv.Command(t, "/proc/self/exe", "-test.run=^TestBusy$")
	other.Env = append(os.Environ(), "COLLECTHTTP_BUSY=1")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	_, h, p := serve(t, &collect.Options{Windows: true}, &collecthttp.Options{
		Window: 50 * time.Millisecond, Keep: 200 * time.Millisecond, Others: true,
	})
	found := false
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		all, err := h.Profile(0)
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(all.Time) > 10*time.Second {
			t.Fatalf("a profile from %v on", all.Time)
		}
		if found = has(all, other.Process.Pid, "neighbour"); found {
			break
		}
	}
	if !found {
		t.Error("the other process is not shown")
	}
	if err := p.Close(); err != nil { // before the handler
		t.Error(err)
	}
	for range 100 {
		time.Sleep(20 * time.Millisecond)
		if _, err := h.Profile(0); errors.Is(err, os.ErrClosed) {
			return
		}
	}
	t.Error("the handler does not say that its profiler was closed")
}

func has(p *profile.Profile, pid int, name string) bool {
	for _, s := range p.Samples {
		for _, f := range s.Frames {
			for _, fn := range f.Functions {
				if s.PID == pid && strings.HasSuffix(fn.Name, name) {
					return true
				}
			}
		}
	}
	return false
}
