package index

import (
	"fmt"
	"sync"
	"testing"
)

// TestSharedMemo checks that a memo keeps its limit, drops values that were not used for long,
// keeps those in use, and can be read while it is written.
func TestSharedMemo(t *testing.T) {
	const limit = 64 << 10
	m := &SharedMemo[string]{Limit: limit, Cost: func(s string) int64 { return int64(len(s)) }}
	value := func(i uint64) string { return fmt.Sprintf("value %d", i) }
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := uint64(0); ; i = (i + 1) % 5000 {
				select {
				case <-stop:
					return
				default:
				}
				if s, _, ok := m.Get(MemoKey{1, i}); ok && s != value(i) {
					t.Errorf("%d is %q", i, s)
					return
				}
			}
		})
	}
	for i := range uint64(5000) {
		m.Put(MemoKey{1, i}, value(i))
		if n := m.Bytes(); n > limit {
			t.Fatalf("%d bytes after %d values", n, i)
		}
		// A value in constant use stays.
		s, aged, ok := m.Get(MemoKey{1, 7})
		if i >= 7 && (!ok || s != value(7)) {
			t.Fatalf("after %d values the one in use is %q, %v", i, s, ok)
		}
		if aged {
			m.Put(MemoKey{1, 7}, s)
		}
	}
	close(stop)
	readers.Wait()
	if _, _, ok := m.Get(MemoKey{1, 8}); ok {
		t.Error("nothing was forgotten")
	}
	if _, _, ok := m.Get(MemoKey{2, 4999}); ok {
		t.Error("another file's value was found")
	}
	m.Put(MemoKey{1, 9999}, string(make([]byte, limit)))
	if _, _, ok := m.Get(MemoKey{1, 9999}); ok || m.Bytes() > limit {
		t.Errorf("a value above the limit was kept: %d bytes", m.Bytes())
	}
}

// TestSeenFilter checks that Again is false for a key's first use and true for its second.
func TestSeenFilter(t *testing.T) {
	var s SeenFilter
	for i := range uint64(100) {
		if s.Again(MemoKey{1, i << 12}) {
			t.Errorf("%d was not seen before", i)
		}
		if !s.Again(MemoKey{1, i << 12}) {
			t.Errorf("%d was seen", i)
		}
	}
}
