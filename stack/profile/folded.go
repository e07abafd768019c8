package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/escape"
)

// unknownFrame stands for a frame that has no name, as in BCC and perf.
const unknownFrame = "[unknown]"

// Suffixes that mark a frame's kind in a flame graph, by FlameGraph's convention: palettes
// such as java colour by them, and a drawing does not show them.
const (
	suffixKernel  = "_[k]" // kernel code
	suffixInlined = "_[i]" // inlined into the frame below it
	suffixJIT     = "_[j]" // generated at run time
	suffixWaker   = "_[w]" // a frame of the stack that did the wakeup
)

// Folded is a set of stacks with a count each, equal stacks merged: the model behind flame
// graphs and the folded text format. Stacks are slices of frame names, root first.
//
// The zero value is an empty set ready for use. Folded is plain data and holds no resource.
// It is for one goroutine at a time.
//
// Frame names are cleaned as they enter, so that no name can break a line of
// the text format: ';' becomes ':' (as FlameGraph's own tools do), control
// characters and invalid UTF-8 are replaced, surrounding space is dropped, a
// number after a space at the end of the last frame is joined by '_', and an
// empty name becomes "[unknown]".
type Folded struct {
	entries      map[string]*foldedEntry
	differential bool
	key          []byte // scratch of Add
}

type foldedEntry struct{ base, count int64 }

// FoldedStack is one entry of a Folded.
type FoldedStack struct {
	// Frames are the names, root first. The slice belongs to the Folded.
	Frames []string `json:"frames"`
	// Count is the number of samples, or the sum of the measured values.
	Count int64 `json:"count"`
	// Base is the count before, in a differential set; otherwise 0.
	Base int64 `json:"base,omitempty"`
}

// Add adds n to the count of the stack, which is given root first. Negative n are ignored;
// sums stop at the largest int64. A stack without any frame counts as "[unknown]", so that
// totals stay correct. Add does not keep frames, and does not allocate for a stack that is
// there already.
func (f *Folded) Add(frames []string, n int64) { f.add(frames, 0, n) }

func (f *Folded) add(frames []string, base, n int64) {
	if n < 0 || base < 0 {
		return
	}
	key := f.key[:0]
	for i, s := range frames {
		if i > 0 {
			key = append(key, ';')
		}
		key = append(key, escape.Frame(s, i == len(frames)-1)...)
	}
	if len(frames) == 0 {
		key = append(key, unknownFrame...)
	}
	f.key = key
	e := f.entries[string(key)]
	if e == nil {
		if f.entries == nil {
			f.entries = make(map[string]*foldedEntry)
		}
		e = new(foldedEntry)
		f.entries[string(key)] = e
	}
	e.base = addSaturated(e.base, base)
	e.count = addSaturated(e.count, n)
}

// Merge adds every stack of other.
func (f *Folded) Merge(other *Folded) {
	if other == nil {
		return
	}
	f.differential = f.differential || other.differential
	for s := range other.All() {
		f.add(s.Frames, s.Base, s.Count)
	}
}

// All yields the stacks in the order of their text lines, which is the same on
// every run. The Folded must not be changed meanwhile.
func (f *Folded) All() iter.Seq[FoldedStack] {
	return func(yield func(FoldedStack) bool) {
		for _, k := range f.keys() {
			e := f.entries[k]
			s := FoldedStack{Frames: strings.Split(k, ";"), Count: e.count, Base: e.base}
			if !yield(s) {
				return
			}
		}
	}
}

func (f *Folded) keys() []string {
	if f == nil {
		return nil
	}
	keys := make([]string, 0, len(f.entries))
	for k := range f.entries {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Len returns the number of different stacks.
func (f *Folded) Len() int {
	if f == nil {
		return 0
	}
	return len(f.entries)
}

// Total returns the sum of all counts, at most the largest int64.
func (f *Folded) Total() int64 {
	var t int64
	if f != nil {
		for _, e := range f.entries {
			t = addSaturated(t, e.count)
		}
	}
	return t
}

// BaseTotal returns the sum of the counts before, in a differential set.
func (f *Folded) BaseTotal() int64 {
	var t int64
	if f != nil {
		for _, e := range f.entries {
			t = addSaturated(t, e.base)
		}
	}
	return t
}

// Differential reports whether the stacks carry a count before as well.
func (f *Folded) Differential() bool { return f != nil && f.differential }

// Filter returns the set of stacks for which keep returns true.
func (f *Folded) Filter(keep func(FoldedStack) bool) *Folded {
	return f.transform(func(s FoldedStack) ([]string, bool) { return s.Frames, keep(s) })
}

// Rename returns the set with every frame name replaced by the result of rename; stacks
// that become equal are merged. A frame renamed to "" is left out.
func (f *Folded) Rename(rename func(string) string) *Folded {
	return f.transform(func(s FoldedStack) ([]string, bool) {
		out := s.Frames[:0]
		for _, name := range s.Frames {
			if name = rename(name); name != "" {
				out = append(out, name)
			}
		}
		return out, true
	})
}

// Reverse returns the set with every stack reversed: leaves become roots, so that equal
// leaves merge and show their callers.
func (f *Folded) Reverse() *Folded {
	return f.transform(func(s FoldedStack) ([]string, bool) {
		slices.Reverse(s.Frames)
		return s.Frames, true
	})
}

// MergeRecursion returns the set with directly repeated frames merged into
// one, so that a recursive function is as wide as its work and one frame high.
func (f *Folded) MergeRecursion() *Folded {
	return f.transform(func(s FoldedStack) ([]string, bool) { return slices.Compact(s.Frames), true })
}

func (f *Folded) transform(change func(FoldedStack) ([]string, bool)) *Folded {
	out := &Folded{differential: f.Differential()}
	for s := range f.All() {
		if frames, ok := change(s); ok {
			out.add(frames, s.Base, s.Count)
		}
	}
	return out
}

// Prune returns the set without the subtrees whose count (and count before) is below limit.
// Their counts stay in the caller; stacks cut off at their root are gathered under
// "[pruned]", so the total is the same.
func (f *Folded) Prune(limit int64) *Folded {
	root := newTree(f)
	out := &Folded{differential: f.Differential()}
	for s := range f.All() {
		n, keep := root, 0
		for _, name := range s.Frames {
			if n = n.find(name); max(n.count, n.base) < limit {
				break
			}
			keep++
		}
		frames := s.Frames[:keep]
		if keep == 0 {
			frames = []string{"[pruned]"}
		}
		out.add(frames, s.Base, s.Count)
	}
	return out
}

// Diff returns the differential set of two measurements: after's counts, with
// before's beside them. With normalize, before's counts are scaled so that
// both have after's total, which makes runs of unequal length comparable.
func Diff(before, after *Folded, normalize bool) *Folded {
	out := &Folded{differential: true}
	for s := range after.All() {
		out.add(s.Frames, 0, s.Count)
	}
	scale := 1.0
	if t := before.Total(); normalize && t > 0 {
		scale = float64(after.Total()) / float64(t)
	}
	for s := range before.All() {
		base := s.Count
		if scale != 1 {
			base = clampInt64(math.Round(float64(s.Count) * scale))
		}
		out.add(s.Frames, base, 0)
	}
	return out
}

// Equal reports whether both hold the same stacks with the same counts.
func (f *Folded) Equal(other *Folded) bool {
	if f.Len() != other.Len() || f.Differential() != other.Differential() {
		return false
	}
	if f == nil || other == nil {
		return true
	}
	for k, e := range f.entries {
		if o := other.entries[k]; o == nil || *o != *e {
			return false
		}
	}
	return true
}

// foldedJSON is the JSON form of a Folded.
type foldedJSON struct {
	Differential bool          `json:"differential,omitempty"`
	Stacks       []FoldedStack `json:"stacks"`
}

// MarshalJSON returns {"stacks":[{"frames":["a","b"],"count":3},…]}, sorted.
func (f *Folded) MarshalJSON() ([]byte, error) {
	j := foldedJSON{Differential: f.Differential(), Stacks: slices.AppendSeq([]FoldedStack{}, f.All())}
	return json.Marshal(j)
}

// UnmarshalJSON replaces f by the set in b, in the form of MarshalJSON.
func (f *Folded) UnmarshalJSON(b []byte) error {
	var j foldedJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*f = Folded{differential: j.Differential}
	for _, s := range j.Stacks {
		if s.Count < 0 || s.Base < 0 {
			return fmt.Errorf("folded stack %q: negative count", s.Frames)
		}
		f.add(s.Frames, s.Base, s.Count)
	}
	return nil
}

func addSaturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func clampInt64(v float64) int64 {
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(v)
}

// node is a frame in a Folded seen as a tree.
type node struct {
	name        string
	count, base int64 // with all children
	self        int64
	selfBase    int64
	children    []*node
	byName      map[string]*node // while the tree is built

	// In the order of time: the caller's own count between the child before and
	// this one, and where the last child ends, counted from this node's start.
	gap, end int64
}

// newTree returns the root, children in name order.
func newTree(f *Folded) *node {
	root := &node{name: "all"}
	for s := range f.All() {
		n := root
		n.add(s)
		for _, name := range s.Frames {
			n = n.child(name)
			n.add(s)
		}
		n.self = addSaturated(n.self, s.Count)
		n.selfBase = addSaturated(n.selfBase, s.Base)
	}
	root.sort()
	return root
}

func (n *node) add(s FoldedStack) {
	n.count = addSaturated(n.count, s.Count)
	n.base = addSaturated(n.base, s.Base)
}

// child returns n's child of that name, adding it if there is none.
func (n *node) child(name string) *node {
	if c := n.byName[name]; c != nil {
		return c
	}
	c := &node{name: name}
	if n.byName == nil {
		n.byName = make(map[string]*node)
	}
	n.byName[name] = c
	n.children = append(n.children, c)
	return c
}

// find returns n's child of that name, once the tree is sorted.
func (n *node) find(name string) *node {
	i, _ := slices.BinarySearchFunc(n.children, name, func(c *node, name string) int {
		return cmp.Compare(c.name, name)
	})
	return n.children[i]
}

// sort orders all children by name, without recursion: a stack may be a million
// frames deep.
func (n *node) sort() {
	for todo := []*node{n}; len(todo) > 0; {
		n, todo = todo[len(todo)-1], todo[:len(todo)-1]
		slices.SortFunc(n.children, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
		n.byName = nil
		todo = append(todo, n.children...)
	}
}
