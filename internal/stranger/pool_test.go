package stranger

import "testing"

// TestPool: none gets more than its part of what the others leave, twenty who take all they can
// leave something for one that comes after them, and what is given back can be taken again.
func TestPool(t *testing.T) {
	p := Pool[int]{Total: 8000, Parts: 8}
	greedy := func(k int) (n int64) {
		for p.Take(k, 1) {
			n++
		}
		return n
	}
	if n := greedy(0); n != 1000 {
		t.Errorf("the first one has %d", n)
	}
	for k := 1; k < 20; k++ {
		greedy(k)
	}
	if n := greedy(0); n != 0 {
		t.Errorf("the first one has %d more", n)
	}
	if n := greedy(20); n < 60 || p.taken > p.Total {
		t.Errorf("the last one has %d, all have %d", n, p.taken)
	}
	if p.Take(21, p.Total) || p.Take(0, 1) || !p.Take(21, 0) || !p.Take(21, -1) {
		t.Error("more than its part was taken, or nothing was refused")
	}
	p.Add(0, 100)
	p.Give(0, 1<<40)
	if n := greedy(0); n < 100 || n > 1000 {
		t.Errorf("after giving all back it has %d", n)
	}
	for range 3 {
		was := p.taken
		if p.Ebb(100); p.taken > was-80 || p.taken < was-150 {
			t.Errorf("%d of %d are left", p.taken, was)
		}
	}
	if p.Ebb(p.Total); p.taken != 0 || len(p.by) != 0 {
		t.Errorf("%d are left of %d", p.taken, len(p.by))
	}
}

// TestPoolEnds: what is given back bit by bit comes to an end, and so do the parties.
func TestPoolEnds(t *testing.T) {
	p := Pool[int]{Total: 1000, Parts: 2}
	for k := range 100 {
		p.Take(k, 1)
	}
	for range 100 {
		p.Ebb(1)
	}
	if p.taken != 0 || len(p.by) != 0 {
		t.Errorf("%d of %d are left", p.taken, len(p.by))
	}
}
