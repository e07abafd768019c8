package tool_test

import (
	"testing"

	"github.com/borescope/borescope/probe/tool"
)

// An event that is a little older than the first one is not 2^64 ns younger.
func TestSeconds(t *testing.T) {
	r := new(tool.Run)
	for _, c := range []struct {
		nsecs uint64
		want  float64
	}{{2e9, 0}, {3.5e9, 1.5}, {2e9 - 1000, -1e-6}} {
		if got := r.Seconds(c.nsecs); got != c.want {
			t.Errorf("%d ns: %v s, want %v", c.nsecs, got, c.want)
		}
	}
}
