package compress

import (
	"bytes"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	e, err := NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 1000, 1<<20 - 1} {
		block := bytes.Repeat([]byte{7, 8, 9, 10}, n/4+1)[:n]
		packed := e.Append([]byte("head"), block)
		got, err := d.Append(append(make([]byte, 0, 1+len(block)), 'x'), packed[4:])
		if err != nil || !bytes.Equal(got, append([]byte("x"), block...)) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if n > 0 {
			if _, err := d.Append(make([]byte, 0, len(block)), packed[4:len(packed)-1]); err == nil {
				t.Error("cut off and nobody noticed")
			}
		}
	}
	if _, err := d.Append(make([]byte, 0, 2<<20), e.Append(nil, make([]byte, 1<<20+1))); err == nil {
		t.Error("larger than the limit")
	}
	if _, err := d.Append(make([]byte, 0, 999), e.Append(nil, make([]byte, 1000))); err == nil {
		t.Error("larger than its place")
	}
}
