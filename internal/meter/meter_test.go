package meter_test

import (
	"testing"

	"github.com/borescope/borescope/internal/meter"
)

var kept []byte // on the heap

func TestAllocated(t *testing.T) {
	const size = 8 << 20
	if n := meter.Allocated(func() { kept = make([]byte, size) }); n < size || n > 2*size {
		t.Errorf("%d bytes allocated, want %d", n, size)
	}
}
