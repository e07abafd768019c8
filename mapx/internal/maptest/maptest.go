// Package maptest makes maps for tests of packages that read them.
package maptest

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/borescope/borescope/internal/testenv"
)

// Need skips the test if maps can't be made. It needs root, and removes the limit of locked
// memory.
func Need(t testing.TB) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	// Before Linux 5.11 maps count as locked memory.
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
}

// New returns a new map, which is closed after the test. It skips the test if the kernel does
// not have the map's type.
func New(t testing.TB, spec *ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	Need(t)
	m, err := ebpf.NewMap(spec)
	if errors.Is(err, ebpf.ErrNotSupported) {
		testenv.Need(t, testenv.Missing(spec.Type.String()+" maps", err.Error()))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
