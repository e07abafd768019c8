package bpfwalk

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Spans that were taken never overlap, and given back they are one again.
func TestSpans(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	free := []span{{1, 999}}
	var taken []span
	used := make(map[int]bool)
	for range 5000 {
		if n := 1 + rnd.IntN(40); rnd.IntN(2) == 0 {
			first, ok := take(&free, n)
			if !ok {
				continue
			}
			for i := first; i < first+n; i++ {
				if used[i] || i < 1 || i > 999 {
					t.Fatalf("%d given out twice, or outside", i)
				}
				used[i] = true
			}
			taken = append(taken, span{first, n})
		} else if len(taken) > 0 {
			i := rnd.IntN(len(taken))
			s := taken[i]
			taken = slices.Delete(taken, i, i+1)
			for k := s.first; k < s.first+s.n; k++ {
				delete(used, k)
			}
			give(&free, s)
		}
	}
	for _, s := range taken {
		give(&free, s)
	}
	if !slices.Equal(free, []span{{1, 999}}) {
		t.Errorf("left: %v", free)
	}
}
