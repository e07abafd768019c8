package kernelcode

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestFind: of a recorded kernel, a function is found by its name, and what is not there is
// refused.
func TestFind(t *testing.T) {
	env := probetest.Env(t)
	if s, err := Find(env, "", "vfs_read", false); err != nil || s.Name != "vfs_read" || s.Address == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Find(env, "", "no_such_function", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestIsClone(t *testing.T) {
	for name, want := range map[string]bool{"vfs_read": false, "vfs_read.isra.0": true, "f.constprop.1.cold": true, "part.f": false} {
		if IsClone(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

// TestIsSplit: parts of functions by the names that compilers give them, and what only looks
// like one.
func TestIsSplit(t *testing.T) {
	for name, want := range map[string]bool{
		"f.cold": true, "f.cold.12": true, "f.isra.0.cold": true, "_ZN2ns1fEi.cold": true, "f.__part.2": true,
		"f.part.0": false, "f.constprop.1": false, "cold": false, "f.colder": false, "f.cold.isra.0": false, "": false,
	} {
		if IsSplit(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
