package probe

import (
	"cmp"
	"slices"
	"strings"
)

// nearest returns at most n of the names that look most like name, best first,
// for an error that helps. Names further than a third of their length away are
// not offered.
func nearest(name string, among []string, n int) []string {
	s := newNearest(name, n)
	for _, c := range among {
		s.add(c)
	}
	return s.names()
}

// nearSearch collects near names one at a time, so that a scan of 100,000
// kernel functions needs no list of them.
type nearSearch struct {
	name  string
	n     int
	found []nearName
	row   []int
}

type nearName struct {
	name string
	dist int
}

func newNearest(name string, n int) *nearSearch { return &nearSearch{name: name, n: n} }

func (s *nearSearch) add(c string) {
	if len(s.name) == 0 || c == s.name {
		return
	}
	limit := max(1, len(s.name)/3)
	if d := len(c) - len(s.name); d > limit || -d > limit {
		return
	}
	if len(s.found) == s.n && s.n > 0 {
		limit = min(limit, s.found[s.n-1].dist)
	}
	d := s.distance(c, limit)
	if d > limit {
		return
	}
	if slices.ContainsFunc(s.found, func(f nearName) bool { return f.name == c }) {
		return
	}
	s.found = append(s.found, nearName{c, d})
	slices.SortStableFunc(s.found, func(a, b nearName) int {
		return cmp.Or(cmp.Compare(a.dist, b.dist), strings.Compare(a.name, b.name))
	})
	s.found = s.found[:min(len(s.found), s.n)]
}

func (s *nearSearch) names() []string {
	var out []string
	for _, f := range s.found {
		out = append(out, f.name)
	}
	return out
}

// distance is the edit distance (insert, delete, replace, swap of neighbours)
// between c and the name, or more than limit as soon as that is certain.
func (s *nearSearch) distance(c string, limit int) int {
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
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
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
