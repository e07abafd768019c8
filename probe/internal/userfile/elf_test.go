package userfile

import (
	"bytes"
	"errors"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
)

// Two thousand headers of one symbol table made a file of 7 MB take 1.5 GB.
func TestManyTables(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	image := elfbuild.ManyTables(2000, elfbuild.SymbolTable{N: 1000, Step: 16, Size: 16, Names: 8})
	f, err := elffile.New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	err = Symbols(t.Context(), f, func([]byte) bool { return true }, func(Symbol) error { n++; return nil })
	if !errors.Is(err, elffile.ErrTooLarge) || n > len(image)/24 {
		t.Errorf("%d symbols of a file of %d bytes, %v; want %v", n, len(image), err, elffile.ErrTooLarge)
	}
}
