// Package bpfhttp serves the tables of a loaded program by HTTP, as text and as JSON: what a
// service's own tracer has counted so far, to be looked at.
//
//	session, err := action.Attach(p, &action.Options{Resolve: &probe.Options{
//		Filter: &probe.Filter{PIDs: []int{os.Getpid()}},
//	}})
//	if err != nil {
//		return err
//	}
//	tables, err := bpfhttp.New(session, nil)
//	if err != nil {
//		return err
//	}
//	mux.Handle("/debug/maps/", http.StripPrefix("/debug/maps/", tables))
//
// The page "" has all of the program's tables and its counts of what was lost, the page of a
// map's name that table alone. ?format=json has the same as JSON, and ?top=N only the N entries
// with the largest values. Nothing is cleared. Importing the package, and New, start nothing.
package bpfhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Program is a loaded program: a *bpf.Loaded, or a session that embeds one.
type Program interface {
	bpf.Reader
	Program() *ir.Program
	Plan() *probe.Plan
	Stats() (bpf.Stats, error)
}

// Options are the options of New. The zero value, and nil, is the default.
type Options struct {
	// Others also serves programs that see other processes than this one: set it if whoever
	// can reach the handler may see what they show.
	Others bool
	// Top is how many entries of a table a page has at most, those with the largest values,
	// unless a request asks for another number; 0 means 1,000.
	Top int
}

// Handler serves the tables. It is safe for concurrent use, and has nothing to close.
type Handler struct {
	p     Program
	maps  []*ir.Map
	top   int
	title string
}

// defaultTop is documented at Options.Top.
const defaultTop = 1000

// New serves the tables of a program, which it borrows. The error says that the program may see
// other processes: its plan's Filter does not restrict it to this one, and Options.Others is not
// set. (A program that fires in this process only may still read of others, such as who is woken:
// what it keeps is up to its author.) Buffers of events are no tables, and are left out, as is
// storage, which the kernel does not list.
func New(p Program, o *Options) (*Handler, error) {
	var with Options
	if o != nil {
		with = *o
	}
	// The caller may have ignored the error that came with a nil session.
	if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("serve tables: no program")
	}
	prog := p.Program()
	if f := p.Plan().Filter; !with.Others && (f == nil || !slices.Equal(f.PIDs, []uint32{uint32(os.Getpid())})) {
		return nil, fmt.Errorf("serve tables of %s: it sees other processes: set Options.Others to show them, "+
			"or let it fire in this one only (probe.Filter)", prog.Name)
	}
	h := &Handler{p: p, title: prog.Name, top: with.Top}
	if h.top <= 0 {
		h.top = defaultTop
	}
	for _, m := range prog.AllMaps() {
		switch m.Kind {
		case ir.MapRing, ir.MapPerf, ir.MapTaskStorage, ir.MapCgroupStorage:
			continue
		}
		h.maps = append(h.maps, m)
	}
	return h, nil
}

// ServeHTTP serves the pages.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	maps, name := h.maps, strings.TrimPrefix(r.URL.Path, "/")
	if name != "" {
		i := slices.IndexFunc(maps, func(m *ir.Map) bool { return m.Name == name })
		if i < 0 {
			http.Error(w, "no such table: "+strings.Join(h.names(), ", "), http.StatusNotFound)
			return
		}
		maps = maps[i : i+1]
	}
	top, err := h.topOf(r.FormValue("top"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kind, write := "text/plain; charset=utf-8", h.text
	switch format := r.FormValue("format"); format {
	case "", "text":
	case "json":
		kind, write = "application/json", h.json
	default:
		http.Error(w, fmt.Sprintf("format=%q is neither text nor json", format), http.StatusBadRequest)
		return
	}
	var b bytes.Buffer
	if err := h.page(&b, maps, name == "", top, write); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = b.WriteTo(w) // a client that is gone needs no answer
}

// names returns the names of the tables.
func (h *Handler) names() []string {
	names := make([]string, len(h.maps))
	for i, m := range h.maps {
		names[i] = m.Name
	}
	return names
}

func (h *Handler) topOf(text string) (int, error) {
	if text == "" {
		return h.top, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("top=%q is not a number of entries", text)
	}
	return n, nil
}

// content is what a page shows.
type content struct {
	stats  *bpf.Stats // nil on the page of one table
	tables []contentTable
	top    int
}

type contentTable struct {
	m       *ir.Map
	entries []mapx.Entry[bpf.Value, any]
	err     error // why there are fewer than there could be
}

// page reads what a page shows, and writes it.
func (h *Handler) page(w io.Writer, maps []*ir.Map, all bool, top int,
	write func(io.Writer, *content) error,
) error {
	c := &content{top: top}
	if all {
		st, err := h.p.Stats()
		if err != nil {
			return err
		}
		c.stats = &st
	}
	for _, m := range maps {
		t, err := bpf.OpenTable(h.p, m)
		if err != nil {
			return err
		}
		s, err := t.Snapshot()
		if errors.Is(err, os.ErrClosed) {
			return err
		}
		c.tables = append(c.tables, contentTable{m, s.Entries, err})
	}
	return write(w, c)
}

// losses are the counts of a program that are worth a line if they are not 0.
func losses(st *bpf.Stats) []named {
	return slices.DeleteFunc([]named{
		{"full", st.Full},
		{"missed", st.Missed},
		{"faults", st.Faults},
		{"truncated", st.Truncated},
		{"no_scratch", st.NoScratch},
		{"limited", st.Limited},
		{"throttled", st.Throttled},
		{"unwalked", st.Unwalked},
		{"broken", st.Broken},
		{"busy", st.Busy},
	}, func(n named) bool { return n.n == 0 })
}

type named struct {
	name string
	n    uint64
}

// text writes a page as text: tables as bpftrace prints maps.
func (h *Handler) text(w io.Writer, c *content) error {
	var b bytes.Buffer
	if c.stats != nil {
		fmt.Fprintf(&b, "program %s\n", h.title)
		for _, l := range losses(c.stats) {
			fmt.Fprintf(&b, "%s: %d\n", l.name, l.n)
		}
		b.WriteByte('\n')
	}
	for i, t := range c.tables {
		if i > 0 && !bytes.HasSuffix(b.Bytes(), []byte("\n\n")) { // behind a histogram there is one
			b.WriteByte('\n')
		}
		if err := printTable(&b, &t, c.top); err != nil {
			return err
		}
		if n := len(t.entries); n > c.top {
			fmt.Fprintf(&b, "(the largest %d of %d)\n", c.top, n)
		}
		if t.err != nil {
			fmt.Fprintf(&b, "(%v)\n", t.err)
		}
	}
	_, err := io.WriteString(w, escape.Lines(b.String()))
	return err
}
