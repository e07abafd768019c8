package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/borescope/borescope/internal/escape"
)

// TopOptions are the options of Profile.Top.
type TopOptions struct {
	// N is the number of functions, 20 if 0, all if negative.
	N int
	// Value is the index of the value that is summed.
	Value int
	// ByTotal sorts by Total instead of Self.
	ByTotal bool
	// Callers is the length of the caller chains, 4 if 0, none if negative.
	Callers int
}

// TopTable lists the functions in which a profile's values are spent. It is plain data.
type TopTable struct {
	// Type is the type of the summed value.
	Type ValueType `json:"type"`
	// Total is the sum over all samples.
	Total int64 `json:"total"`
	// Functions are the busiest ones, busiest first; ties in name order.
	Functions []TopFunction `json:"functions"`
}

// TopFunction is one line of a TopTable.
type TopFunction struct {
	// Name is the function's name, or its file in brackets.
	Name string `json:"name"`
	// Module is the file that holds it.
	Module string `json:"module,omitempty"`
	// Self is the value of the function itself, Total its value with all that it called; a
	// recursive function counts once per sample.
	Self  int64 `json:"self"`
	Total int64 `json:"total"`
	// Callers is the busiest way to the function: the caller that most of the value came
	// through, that one's caller, and so on. It is by Self or by Total, like the table's
	// order.
	Callers []string `json:"callers,omitempty"`
	// CallersShare is the share of the function's Self (Total if sorted by
	// it), 0 to 1, that came exactly this way.
	CallersShare float64 `json:"callersShare,omitempty"`
}

// Top returns the profile's values summed by function.
func (p *Profile) Top(opts *TopOptions) *TopTable {
	o := TopOptions{}
	if opts != nil {
		o = *opts
	}
	setDefault(&o.N, 20)
	setDefault(&o.Callers, 4)
	t := &TopTable{}
	if types := p.types(); o.Value >= 0 && o.Value < len(types) {
		t.Type = types[o.Value]
	}
	b := topBuilder{ids: make(map[topKey]int), frames: make(map[*NamedFrame][]int)}
	for i := range p.Samples {
		s := &p.Samples[i]
		if o.Value < 0 || o.Value >= len(s.Values) || len(s.Frames) == 0 || s.Values[o.Value] <= 0 {
			continue
		}
		t.Total = addSaturated(t.Total, s.Values[o.Value])
		b.add(s, s.Values[o.Value])
	}
	order := make([]int, len(b.sums))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return compareTop(&b.sums[x], &b.sums[y], o.ByTotal) })
	if o.N >= 0 && len(order) > o.N {
		order = order[:o.N]
	}
	for _, id := range order {
		if o.Callers > 0 {
			b.findCallers(id, &o)
		}
		t.Functions = append(t.Functions, b.sums[id])
	}
	return t
}

type topKey struct{ name, module string }

// topBuilder numbers functions, so that stacks compare fast.
type topBuilder struct {
	ids    map[topKey]int
	sums   []TopFunction         // by number
	seen   []int                 // by number: 1 + the last stack that had it
	frames map[*NamedFrame][]int // the functions of a frame
	stacks []topStack
}

type topStack struct {
	functions []int // innermost first
	value     int64
}

func (b *topBuilder) add(s *Sample, v int64) {
	st := topStack{make([]int, 0, len(s.Frames)), v}
	for _, fr := range s.Frames {
		ids, ok := b.frames[fr]
		if !ok {
			ids = b.number(fr)
			b.frames[fr] = ids
		}
		st.functions = append(st.functions, ids...)
	}
	b.stacks = append(b.stacks, st)
	leaf := &b.sums[st.functions[0]]
	leaf.Self = addSaturated(leaf.Self, v)
	for _, id := range st.functions {
		if b.seen[id] != len(b.stacks) {
			b.seen[id] = len(b.stacks)
			b.sums[id].Total = addSaturated(b.sums[id].Total, v)
		}
	}
}

// number lists a frame's functions, inlined ones too, innermost first.
func (b *topBuilder) number(fr *NamedFrame) []int {
	fns := fr.Functions
	if len(fns) == 0 {
		fns = []Function{{}}
	}
	ids := make([]int, len(fns))
	for i, fn := range fns {
		key := topKey{fn.Name, fr.module()}
		if key.name == "" {
			key.name = fr.unknown(false)
		}
		id, ok := b.ids[key]
		if !ok {
			id = len(b.sums)
			b.ids[key] = id
			b.sums = append(b.sums, TopFunction{Name: key.name, Module: key.module})
			b.seen = append(b.seen, 0)
		}
		ids[i] = id
	}
	return ids
}

func compareTop(a, b *TopFunction, byTotal bool) int {
	x, y := cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total)
	if byTotal {
		x, y = y, x
	}
	return cmp.Or(x, y, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Module, b.Module))
}

// findCallers follows, from the function outwards, the caller that carries the
// most at each step.
func (b *topBuilder) findCallers(id int, o *TopOptions) {
	fn := &b.sums[id]
	whole := fn.Self
	if o.ByTotal {
		whole = fn.Total
	}
	var left []topStack // functions: what called the part of the way found so far
	for _, st := range b.stacks {
		at := 0
		if o.ByTotal {
			at = slices.Index(st.functions, id)
		}
		if at >= 0 && st.functions[at] == id {
			left = append(left, topStack{st.functions[at+1:], st.value})
		}
	}
	for range o.Callers {
		best, value := b.busiest(left)
		if best < 0 {
			return
		}
		keep := left[:0]
		for _, st := range left {
			if len(st.functions) > 0 && st.functions[0] == best {
				keep = append(keep, topStack{st.functions[1:], st.value})
			}
		}
		left = keep
		fn.Callers = append(fn.Callers, b.sums[best].Name)
		fn.CallersShare = float64(value) / float64(whole)
	}
}

// busiest returns the innermost function of the stacks that carries the most.
func (b *topBuilder) busiest(stacks []topStack) (id int, value int64) {
	sums := make(map[int]int64)
	for _, st := range stacks {
		if len(st.functions) > 0 {
			sums[st.functions[0]] = addSaturated(sums[st.functions[0]], st.value)
		}
	}
	id = -1
	for k, v := range sums {
		if id < 0 || v > value || v == value && b.before(k, id) {
			id, value = k, v
		}
	}
	return id, value
}

func (b *topBuilder) before(x, y int) bool {
	p, q := &b.sums[x], &b.sums[y]
	return cmp.Or(cmp.Compare(p.Name, q.Name), cmp.Compare(p.Module, q.Module)) < 0
}

// The widths of the table: no line is longer than topWidth.
const (
	topWidth       = 79
	topNameWidth   = 31
	topModuleWidth = 14
	topCallers     = "         < " // what a line of callers begins with
)

// WriteTo writes the table as text, at most 79 columns wide: self, its share, total, its
// share, the function and its file; below that, its callers.
func (t *TopTable) WriteTo(w io.Writer) (int64, error) {
	c := &countingWriter{w: bufio.NewWriter(w)}
	fmt.Fprintf(c, "%8s %6s %8s %6s  %-*s %s\n", "SELF", "%", "TOTAL", "%", topNameWidth, "FUNCTION",
		"MODULE")
	share := func(v int64) float64 {
		if t.Total == 0 {
			return 0
		}
		return 100 * float64(v) / float64(t.Total)
	}
	for i := range t.Functions {
		fn := &t.Functions[i]
		module := ""
		if fn.Module != "" {
			module = clip(escape.Terminal(path.Base(fn.Module)), topModuleWidth)
		}
		line := fmt.Sprintf("%8d %6.2f %8d %6.2f  %-*s %s", fn.Self, share(fn.Self), fn.Total,
			share(fn.Total),
			topNameWidth, clip(escape.Terminal(fn.Name), topNameWidth), module)
		fmt.Fprintln(c, strings.TrimRight(line, " "))
		if len(fn.Callers) > 0 {
			fmt.Fprintln(c, fn.callersLine())
		}
	}
	if err := c.w.Flush(); err != nil && c.err == nil {
		c.err = err
	}
	return c.n, c.err
}

// callersLine is the way to the function, as much of it as a line holds.
func (fn *TopFunction) callersLine() string {
	share := fmt.Sprintf(" (%.0f%%)", 100*fn.CallersShare)
	room := topWidth - len(topCallers) - len(share)
	line := ""
	for i, name := range fn.Callers {
		name = clip(escape.Terminal(name), topNameWidth)
		if i > 0 {
			name = " < " + name
		}
		const more = " < ..."
		need := utf8.RuneCountInString(name)
		if i < len(fn.Callers)-1 {
			need += len(more)
		}
		if need > room {
			line += more
			break
		}
		line += name
		room -= utf8.RuneCountInString(name)
	}
	return topCallers + line + share
}

// String returns the table as text.
func (t *TopTable) String() string {
	var b strings.Builder
	_, _ = t.WriteTo(&b) // a Builder does not fail
	return b.String()
}

// clip cuts the middle out of a long name: its ends tell it apart.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	head := (width - 2) * 2 / 3
	return string(r[:head]) + ".." + string(r[len(r)-(width-2-head):])
}

// countingWriter counts bytes and keeps the first error.
type countingWriter struct {
	w   *bufio.Writer
	n   int64
	err error
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	if c.err == nil {
		c.err = err
	}
	return n, err
}
