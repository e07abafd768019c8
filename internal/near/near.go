// Package near finds names that are similar to a given one, for hints in errors.
package near

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// most is the number of names in a hint.
const most = 3

// Hint returns `; did you mean "x" or "y"?`, for the end of an error, or "" if no name is
// near.
func Hint(name string, among []string) string {
	s := New(name)
	for _, c := range among {
		s.Add(c)
	}
	return s.Hint()
}

// Search collects near names one at a time, so that a scan of 100,000 kernel functions needs
// no list of them. It ignores names with an edit distance of more than a third of the name's
// length, unless they begin with the name. It ignores case.
type Search struct {
	name  string
	found []found
	row   []int
}

type found struct {
	name string
	dist int
}

// New returns a Search for names like name.
func New(name string) *Search { return &Search{name: name} }

// Add adds a name, if it is near.
func (s *Search) Add(c string) {
	if len(s.name) == 0 || c == s.name {
		return
	}
	limit := max(1, len(s.name)/3)
	d := limit
	if len(s.name) <= 3 || !strings.HasPrefix(c, s.name) {
		if diff := len(c) - len(s.name); diff > limit || -diff > limit {
			return
		}
		if len(s.found) == most {
			limit = min(limit, s.found[most-1].dist)
		}
		if d = s.distance(c, limit); d > limit {
			return
		}
	}
	if slices.ContainsFunc(s.found, func(f found) bool { return f.name == c }) {
		return
	}
	s.found = append(s.found, found{c, d})
	slices.SortStableFunc(s.found, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.dist, b.dist), strings.Compare(a.name, b.name))
	})
	s.found = s.found[:min(len(s.found), most)]
}

// Hint is the function Hint for the names that were added.
func (s *Search) Hint() string {
	if len(s.found) == 0 {
		return ""
	}
	var names []string
	for _, f := range s.found {
		names = append(names, strconv.Quote(f.name))
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// distance returns the edit distance (insert, delete, replace, swap of neighbours) between c
// and the name, or more than limit as soon as that is certain.
func (s *Search) distance(c string, limit int) int {
	a, b := s.name, c
	w := len(b) + 1
	if cap(s.row) < 3*w {
		s.row = make([]int, 3*w)
	}
	before, prev, cur := s.row[:w], s.row[w:2*w], s.row[2*w:3*w]
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		best := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if lower(a[i-1]) == lower(b[j-1]) {
				cost = 0
			}
			d := min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && lower(a[i-1]) == lower(b[j-2]) && lower(a[i-2]) == lower(b[j-1]) {
				d = min(d, before[j-2]+1)
			}
			cur[j] = d
			best = min(best, d)
		}
		if best > limit {
			return limit + 1
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
