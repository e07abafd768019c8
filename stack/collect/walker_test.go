package collect

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/feature"
)

// Where there is no memory for the walker, callers do without, and know why;
// other errors are none that they could do without.
func TestWalkerWithoutMemory(t *testing.T) {
	refused := fmt.Errorf("map stack_rows: map create: %w", syscall.ENOMEM)
	for _, err := range []error{noMemory(refused), walkerMemory(0), walkerMemory(walkerBytes + spareBytes - 1)} {
		var unsupported *feature.UnsupportedError
		if !errors.As(err, &unsupported) || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(walkerMemory(walkerBytes+spareBytes), walkerMemory(math.MaxUint64), noMemory(nil)); err != nil {
		t.Error(err)
	}
	if err := noMemory(syscall.EPERM); err != syscall.EPERM {
		t.Errorf("%v", err)
	}
}
