package testenv

import (
	"io"
	"testing"
)

// Piped starts a workload that reads commands from its standard input and answers on its
// standard output. The caller must wait for it.
func Piped(t testing.TB, cmd *Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}
