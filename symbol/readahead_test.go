package symbol

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// TestReadAhead reads texts of all sizes around the buffers', from readers that
// give them in whatever pieces, and stops early.
func TestReadAhead(t *testing.T) {
	text := make([]byte, 5*aheadSize)
	for i := range text {
		text[i] = byte(i * 7919 >> 3)
	}
	broken := errors.New("broken")
	for _, n := range []int{0, 1, aheadSize - 1, aheadSize, aheadSize + 1, 3 * aheadSize, 5 * aheadSize} {
		for name, r := range map[string]io.Reader{
			"plain": bytes.NewReader(text[:n]), "half": iotest.HalfReader(bytes.NewReader(text[:n])),
			"with-error": iotest.DataErrReader(bytes.NewReader(text[:n])),
			"broken":     io.MultiReader(bytes.NewReader(text[:n]), iotest.ErrReader(broken)),
		} {
			a := newReadAhead(r)
			got, err := io.ReadAll(a)
			a.stop()
			if want := name == "broken"; !bytes.Equal(got, text[:n]) || errors.Is(err, broken) != want || err != nil && !want {
				t.Errorf("%s, %d bytes: got %d bytes and %v", name, n, len(got), err)
			}
		}
	}
	for n := range 3 * aheadSize / 4000 {
		a := newReadAhead(bytes.NewReader(text))
		if _, err := io.ReadFull(a, make([]byte, n*4000)); err != nil {
			t.Fatal(err)
		}
		a.stop()
	}
}
