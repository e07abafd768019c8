package tool

import (
	"errors"
	"fmt"
	"testing"

	"github.com/borescope/borescope/probe/ir"
)

// TestSourcePositions: the message for a wrong expression began with the line of the tool's
// own source that had recorded it. Positions in a text of the user's stay.
func TestSourcePositions(t *testing.T) {
	at := func(file string) error {
		return &ir.Error{Pos: ir.Pos{File: file, Line: 7}, Where: "args.x", Err: errors.New("no argument")}
	}
	err := errors.Join(fmt.Errorf("compile a: %w", at("main.go")), fmt.Errorf("b: %w", at("x.bt")))
	got := (&Tool{}).forUser(err)
	if want := "compile a: args.x: no argument\nb: x.bt:7: args.x: no argument"; got.Error() != want {
		t.Errorf("%q, want %q", got, want)
	}
	var e *ir.Error
	if !errors.As(got, &e) || e.Pos.File != "main.go" {
		t.Errorf("%v is lost", err)
	}
}
