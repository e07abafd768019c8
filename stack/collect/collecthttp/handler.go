// Package collecthttp serves profiles of a running service by HTTP: of what it did in the last
// seconds, without having been asked before.
//
//	c, err := collect.Attach([]probe.Target{probe.Perf{Freq: 49}},
//		&collect.Options{PIDs: []int{os.Getpid()}, IncludeSelf: true, Windows: true})
//	if err != nil {
//		return err
//	}
//	p, err := collect.NewProfiler(c, nil)
//	if err != nil {
//		return err
//	}
//	h := collecthttp.New(p, nil)
//	defer h.Close()
//	mux.Handle("/debug/stacks/", http.StripPrefix("/debug/stacks/", h))
//
// The handler has these pages, each of the last ?seconds=N (all that is kept without it):
//
//   - "" and "flame": a flame graph that can be zoomed and searched (profile.WriteHTML)
//   - "flame.svg": the same as a picture
//   - "profile": for go tool pprof http://…/profile?seconds=10
//   - "folded": folded stacks
//
// A request waits for nothing: what the last seconds were is known. Importing the package starts
// nothing, and New one goroutine, which Close ends.
package collecthttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/profile"
)

// Options are the options of a Handler. The zero value, and nil, is the default.
type Options struct {
	// Keep is how much of the past is kept; 0 means a minute. The memory for it is that of its
	// windows' samples, each of at most collect.Options.MaxStacks stacks.
	Keep time.Duration
	// Window is how long a window of time is: what a request gets begins with a window. 0
	// means a second. Reading one costs some milliseconds of waiting, and the naming of what is
	// new in it.
	Window time.Duration
	// Others also shows the stacks of other processes than this one, and of the kernel where
	// none runs: set it if whoever can reach the handler may see them.
	Others bool
	// Title is the title of flame graphs; "" means the program's name.
	Title string
}

// Handler serves the profiles. It is safe for concurrent use.
type Handler struct {
	p    *collect.Profiler
	o    Options
	stop context.CancelFunc
	done chan struct{} // closed when no more windows are taken

	mu      sync.Mutex
	windows []*profile.Profile // guarded by mu: oldest first
	err     error              // guarded by mu: why there are no more
}

// New serves what a Profiler collects, whose Collector has Options.Windows. It takes the windows
// from now on: nobody else may call Window. It borrows the Profiler; close the Handler first.
func New(p *collect.Profiler, o *Options) *Handler {
	ctx, stop := context.WithCancel(context.Background())
	h := &Handler{p: p, stop: stop, done: make(chan struct{})}
	if o != nil {
		h.o = *o
	}
	if h.o.Keep <= 0 {
		h.o.Keep = time.Minute
	}
	if h.o.Window <= 0 {
		h.o.Window = time.Second
	}
	if h.o.Title == "" {
		h.o.Title = filepath.Base(os.Args[0])
	}
	go h.run(ctx)
	return h
}

// Close stops taking windows. Requests then get what was kept. Closing twice does nothing.
func (h *Handler) Close() error {
	h.stop()
	<-h.done
	return nil
}

// run takes windows.
func (h *Handler) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(h.o.Window)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := h.take(); err != nil {
			h.mu.Lock()
			h.err = err
			h.mu.Unlock()
			return
		}
	}
}

// take takes a window, and forgets those that are older than Keep.
func (h *Handler) take() error {
	w, err := h.p.Window()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.windows = append(h.windows, h.shown(w))
	for len(h.windows) > 1 && time.Since(h.windows[1].Time) >= h.o.Keep {
		h.windows[0] = nil
		h.windows = h.windows[1:]
	}
	return nil
}

// shown leaves out of a window what is not to be shown.
func (h *Handler) shown(w *profile.Profile) *profile.Profile {
	if h.o.Others {
		return w
	}
	own := os.Getpid()
	w.Samples = slices.DeleteFunc(w.Samples, func(s profile.Sample) bool { return s.PID != own })
	return w
}

// Profile returns the profile of the last d, in whole windows; 0 means all that is kept. It is
// empty in the first window. The error is why windows are not taken any more.
func (h *Handler) Profile(d time.Duration) (*profile.Profile, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &profile.Profile{Time: time.Now()}
	for i := len(h.windows) - 1; i >= 0; i-- {
		w := h.windows[i]
		if d > 0 && out.Duration >= d {
			break
		}
		out.SampleTypes, out.PeriodType, out.Period, out.Time = w.SampleTypes, w.PeriodType, w.Period, w.Time
		out.Duration += w.Duration
		out.Samples = append(out.Samples, w.Samples...)
	}
	return out, h.err
}

// ServeHTTP serves the pages.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "symbolz" {
		// go tool pprof asks here for the names that a profile lacks, and gives up without an
		// answer. All that are known are in the profile.
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "num_symbols: 1\n")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	page, ok := map[string]page{
		"":          {"text/html; charset=utf-8", h.html},
		"flame":     {"text/html; charset=utf-8", h.html},
		"flame.svg": {"image/svg+xml", h.svg},
		"profile":   {"application/octet-stream", h.pprof},
		"folded":    {"text/plain; charset=utf-8", h.folded},
	}[name]
	if !ok {
		http.Error(w, "no such page: flame, flame.svg, profile or folded", http.StatusNotFound)
		return
	}
	d, err := seconds(r.FormValue("seconds"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p, err := h.Profile(d)
	var b bytes.Buffer
	if err == nil {
		err = page.write(&b, p)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", page.kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = b.WriteTo(w) // a client that is gone needs no answer
}

// page is what a path shows.
type page struct {
	kind  string
	write func(io.Writer, *profile.Profile) error
}

// seconds parses the parameter; "" is 0.
func seconds(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || n > 1e6 {
		return 0, fmt.Errorf("seconds=%q is not a number of seconds above 0", text)
	}
	return time.Duration(n * float64(time.Second)), nil
}

func (h *Handler) subtitle(p *profile.Profile) string {
	return fmt.Sprintf("%v from %s on", p.Duration.Round(100*time.Millisecond), p.Time.Format(time.RFC3339))
}

func (h *Handler) fold(p *profile.Profile) *profile.Folded {
	return p.Folded(&profile.FoldOptions{Annotate: true, NoComm: !h.o.Others})
}

func (h *Handler) html(w io.Writer, p *profile.Profile) error {
	return profile.WriteHTML(w, h.fold(p), &profile.HTMLOptions{
		Title: h.o.Title, Subtitle: h.subtitle(p), NoCommands: !h.o.Others,
	})
}

func (h *Handler) svg(w io.Writer, p *profile.Profile) error {
	return profile.WriteSVG(w, h.fold(p), &profile.SVGOptions{
		Title: h.o.Title, Subtitle: h.subtitle(p), CountName: "samples",
	})
}

func (h *Handler) pprof(w io.Writer, p *profile.Profile) error { return p.WritePprof(w) }

func (h *Handler) folded(w io.Writer, p *profile.Profile) error {
	_, err := h.fold(p).WriteTo(w)
	return err
}
