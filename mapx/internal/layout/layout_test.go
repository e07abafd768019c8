package layout

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLayoutSwap(t *testing.T) {
	type v struct {
		A uint16
		B [2]uint32
		C [3]byte
		D float64
	}
	l, err := Of(reflect.TypeFor[v]())
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2*l.Size)
	for i := range b {
		b[i] = byte(i)
	}
	want := slices.Clone(b)
	l.Swap(b)
	if got := b[:24]; !bytes.Equal(got, []byte{
		1, 0, 2, 3, 7, 6, 5, 4, 11, 10, 9, 8, 12, 13, 14, 15, 23, 22, 21, 20, 19, 18, 17, 16,
	}) {
		t.Fatal(got)
	}
	l.Swap(b)
	if !bytes.Equal(b, want) {
		t.Fatal("twice is not the same")
	}
}
