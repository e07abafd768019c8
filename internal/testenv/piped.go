package testenv

import (
	"io"
	"testing"
)

// Piped starts a workload that is told what to do on its standard input and
// answers on its standard output. Waiting for it is the caller's.
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
