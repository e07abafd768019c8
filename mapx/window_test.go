package mapx

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// scripted is a table whose readings are given.
type scripted struct {
	reads []Snapshot[string, uint64]
	errs  []error
}

func (s *scripted) Snapshot() (Snapshot[string, uint64], error) { return s.reads[0], nil }

func (s *scripted) ReadAndClear() (Snapshot[string, uint64], error) {
	r, err := s.reads[0], s.errs[0]
	s.reads, s.errs = s.reads[1:], s.errs[1:]
	return r, err
}

func counted(pairs ...Entry[string, uint64]) Snapshot[string, uint64] {
	return Snapshot[string, uint64]{Entries: pairs}
}

// Windows follow each other without a gap; the last ones add up; what a reading took out before
// it failed is in the window that then ends.
func TestWindows(t *testing.T) {
	failed := errors.New("half-way")
	table := &scripted{
		[]Snapshot[string, uint64]{
			counted(Entry[string, uint64]{"a", 1}, Entry[string, uint64]{"b", 2}),
			counted(Entry[string, uint64]{"b", 4}),
			counted(Entry[string, uint64]{"a", 8}),
			{},
			counted(Entry[string, uint64]{"c", 16}),
		},
		[]error{nil, failed, nil, nil, nil},
	}
	start := time.Unix(100, 0)
	add := func(a, b uint64) uint64 { return a + b }
	w := NewWindows(table, start, 2*time.Second, add)
	now := start
	w.now = func() time.Time { return now }
	if last := w.Last(0); len(last.Entries) != 0 || last.Duration() != 0 || !last.Begin.Equal(start) {
		t.Errorf("before the first window: %+v", last)
	}
	var all []Snapshot[string, uint64]
	for i, want := range []struct {
		begin, end time.Duration
		entries    []Entry[string, uint64]
		err        error
		last       []Entry[string, uint64] // of a second and a half
	}{
		{0, time.Second, []Entry[string, uint64]{{"a", 1}, {"b", 2}}, nil, []Entry[string, uint64]{{"a", 1}, {"b", 2}}},
		{time.Second, time.Second, nil, failed, []Entry[string, uint64]{{"a", 1}, {"b", 2}}},
		{time.Second, 3 * time.Second, []Entry[string, uint64]{{"b", 4}, {"a", 8}}, nil, []Entry[string, uint64]{{"b", 4}, {"a", 8}}},
		{3 * time.Second, 4 * time.Second, nil, nil, []Entry[string, uint64]{{"b", 4}, {"a", 8}}},
		{4 * time.Second, 5 * time.Second, []Entry[string, uint64]{{"c", 16}}, nil, []Entry[string, uint64]{{"c", 16}}},
	} {
		now = start.Add(time.Duration(i+1) * time.Second)
		win, err := w.Next()
		if !errors.Is(err, want.err) || !slices.Equal(win.Entries, want.entries) ||
			!win.Begin.Equal(start.Add(want.begin)) || !win.End.Equal(start.Add(want.end)) {
			t.Errorf("window %d: %+v, %v", i, win, err)
		}
		for j := range win.Entries {
			win.Entries[j].Key = "the caller's" // and not what is kept
		}
		if last := w.Last(1500 * time.Millisecond); !slices.Equal(last.Entries, want.last) {
			t.Errorf("the last second and a half at %d: %+v", i, last)
		}
		all = append(all, Snapshot[string, uint64]{Entries: want.entries})
	}
	total := Merge(add, all...)
	want := []Entry[string, uint64]{{"a", 9}, {"b", 6}, {"c", 16}}
	if !slices.Equal(total.Entries, want) {
		t.Errorf("altogether %+v", total)
	}
	if kept := w.Last(0); !slices.Equal(kept.Entries, []Entry[string, uint64]{{"c", 16}}) || kept.Duration() != 2*time.Second {
		t.Errorf("kept %+v", kept)
	}
}
