package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// What is too large in a file that somebody may have written is said: every one of them
// takes little, as elfbuild's TestBombs has it.
func TestBombErrors(t *testing.T) {
	testenv.Need(t, testenv.Long)
	testenv.LimitMemory(t, 512<<20)
	env := NewEnv(&EnvOptions{Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features()})
	for _, tt := range []struct{ bomb, target string }{
		{"tables-over-tables", "uprobe:%s:0x1000"},
		{"tables-over-tables", "uprobe:%s:a*"},
		{"compressed-symbols", "uprobe:%s:0x1000"},
		{"compressed-symbols", "uprobe:%s:a*"},
		{"compressed-DWARF", "uprobe:%s:x.c:1"},
		{"long-names", "uprobe:%s:f"},
		{"long-names", "uprobe:%s:0x1000"},
		{"Go-long-names", "uprobe:%s:g*"},
	} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, elfbuild.BombNamed(tt.bomb).Make(), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Resolve(env, []Target{mustParse(t, fmt.Sprintf(tt.target, path))}, &Options{DWARF: true})
		if !errors.Is(err, elffile.ErrTooLarge) {
			t.Errorf("%s, %s: got %v, want %v", tt.bomb, tt.target, err, elffile.ErrTooLarge)
		}
	}
}

// ending is a context that ends when it was asked so many times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestResolveGivesUp: the end of a context ends the work on a file, on the files of a
// pattern and on the members of a set, not only the wait for it.
func TestResolveGivesUp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for i := range 50 {
		if err := os.WriteFile(fmt.Sprintf("%s/no-program-%d", dir, i), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	set := strings.Repeat("uprobe:"+dir+"/no-program-1:a,", 50)
	image := elfbuild.Program(elfbuild.SymbolTable{N: 100_000, Step: 16, Size: 16, Names: 4}.Sections()...).Bytes()
	if err := os.WriteFile(path, image, 0o755); err != nil {
		t.Fatal(err)
	}
	env := NewEnv(&EnvOptions{Arch: "amd64", Release: "6.12.0-test", Features: probetest.Features()})
	for _, target := range []string{
		"uprobe:" + path + ":b*", "uprobe:" + path + ":a*", "uprobe:" + path + ":0x1000",
		"uprobe:" + dir + "/no-*:a", set + "uprobe:" + path + ":a",
	} {
		const left = 8 // of the 25 times for each pass over the table
		ctx := &ending{context.Background(), left}
		if _, err := Resolve(env, []Target{mustParse(t, target)}, &Options{Missing: MissingIgnore, Context: ctx}); !errors.Is(err, context.Canceled) || ctx.left < -3 {
			t.Errorf("%s: %v, asked %d times after the end", target, err, -ctx.left)
		}
	}
}
