package mapx

import (
	"testing"
)

// TestNoMap: a name that a collection has not gives a nil map, which is an
// error and no panic.
func TestNoMap(t *testing.T) {
	var a Map[uint32, uint64]
	var p PerCPU[uint32, uint64]
	for name, f := range map[string]func() error{
		"New":            func() error { _, err := New[uint32, uint64](nil); return err },
		"NewPerCPU":      func() error { _, err := NewPerCPU[uint32, uint64](nil); return err },
		"NewFlip":        func() error { _, err := NewFlip(nil, 0, &a, &a); return err },
		"NewFlipPerCPU":  func() error { _, err := NewFlipPerCPU(nil, 0, &p, &p); return err },
		"OpenRing":       func() error { _, err := OpenRing(nil, nil); return err },
		"OpenPerfBuffer": func() error { _, err := OpenPerfBuffer(nil, nil); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
