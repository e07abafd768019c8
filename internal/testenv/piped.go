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

// Echoing starts a workload that writes what it reads, like cat, and returns when it has done so:
// its libraries are mapped, and it waits for more. The caller must wait for it.
func Echoing(t testing.TB, cmd *Cmd) io.WriteCloser {
	t.Helper()
	in, out := Piped(t, cmd)
	if _, err := in.Write([]byte(".")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return in
}
