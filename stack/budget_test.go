package stack_test

import (
	"errors"
	"testing"

	"github.com/borescope/borescope/stack"
)

// counted counts what is read of it.
type counted struct{ calls, bytes int }

func (m *counted) ReadMemory(b []byte, _ uint64) error {
	m.calls++
	m.bytes += len(b)
	return nil
}

// TestBudget: a process is read within the calls and the bytes that it may take, twenty that
// are read for ever take no more than eight, and leave something for others.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		size, calls int
	}{{1, 1000}, {1000, 500}, {600_000, 0}} {
		b := &stack.Budget{Calls: 1000, Bytes: 500_000}
		var all, last counted
		for id := range 20 {
			mem := counted{}
			within := b.Memory(id, &mem)
			var err error
			for n := 0; err == nil && n < 10_000; n++ {
				err = within.ReadMemory(make([]byte, c.size), 0)
			}
			if !errors.Is(err, stack.ErrBudget) || mem.calls > c.calls || id == 0 && mem.calls != c.calls {
				t.Errorf("%d bytes at a time, process %d: %d calls, %v", c.size, id, mem.calls, err)
			}
			all.calls, all.bytes = all.calls+mem.calls, all.bytes+mem.bytes
		}
		if all.calls > 8*1000 || all.bytes > 8*500_000 {
			t.Errorf("%d bytes at a time: %+v", c.size, all)
		}
		if err := b.Memory(20, &last).ReadMemory(make([]byte, 100), 0); err != nil {
			t.Errorf("%d bytes at a time: nothing is left: %v", c.size, err)
		}
		b.Renew()
		if err := b.Memory(0, &last).ReadMemory(make([]byte, c.size), 0); (err == nil) != (c.calls > 0) {
			t.Errorf("%d bytes at a time, renewed: %v", c.size, err)
		}
	}
}

// TestBudgetDefault: the zero value allows what it says.
func TestBudgetDefault(t *testing.T) {
	var b stack.Budget
	var mem counted
	within := b.Memory(1, &mem)
	for within.ReadMemory(make([]byte, 256), 0) == nil {
	}
	if mem.calls != 64<<10 || mem.bytes != 16<<20 {
		t.Errorf("%+v", mem)
	}
}
