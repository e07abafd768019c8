package notexist_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/borescope/borescope/internal/notexist"
)

func TestErrorf(t *testing.T) {
	err := fmt.Errorf("resolve: %w", notexist.Errorf("no function %s", "vfs_reed"))
	if got, want := err.Error(), "resolve: no function vfs_reed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("it does not match fs.ErrNotExist")
	}
	if errors.Is(err, fs.ErrExist) {
		t.Error("it matches fs.ErrExist")
	}
}
