package bpfwalk

import (
	"cmp"
	"slices"
)

// span is a range of numbers that is free, or taken.
type span struct{ first, n int }

// take cuts n numbers off the first span that has them.
func take(free *[]span, n int) (int, bool) {
	for _, s := range *free {
		if s.n >= n {
			return takeFrom(free, s.first, n)
		}
	}
	return 0, false
}

// takeFrom cuts n numbers off the span that begins with first.
func takeFrom(free *[]span, first, n int) (int, bool) {
	i := slices.IndexFunc(*free, func(s span) bool { return s.first == first && s.n >= n })
	if i < 0 {
		return 0, false
	}
	if s := &(*free)[i]; s.n > n {
		s.first, s.n = s.first+n, s.n-n
	} else {
		*free = slices.Delete(*free, i, i+1)
	}
	return first, true
}

// give puts numbers back, joined with their neighbours.
func give(free *[]span, s span) {
	i, _ := slices.BinarySearchFunc(*free, s, func(a, b span) int {
		return cmp.Compare(a.first, b.first)
	})
	list := slices.Insert(*free, i, s)
	if i+1 < len(list) && list[i].first+list[i].n == list[i+1].first {
		list[i].n += list[i+1].n
		list = slices.Delete(list, i+1, i+2)
	}
	if i > 0 && list[i-1].first+list[i-1].n == list[i].first {
		list[i-1].n += list[i].n
		list = slices.Delete(list, i, i+1)
	}
	*free = list
}
