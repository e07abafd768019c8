package elffile_test

import (
	"errors"
	"testing"

	"github.com/borescope/borescope/internal/elffile"
)

// TestNames: strings that follow each other are all read, those that lie over each other
// only until that is out of proportion.
func TestNames(t *testing.T) {
	tab := make([]byte, 4<<20)
	for i := range tab {
		if tab[i] = 'a'; i%16 == 15 {
			tab[i] = 0
		}
	}
	names := elffile.NewNames(tab)
	for i := 0; i < len(tab); i += 16 {
		if n, err := names.At(uint64(i)); err != nil || len(n) != 15 {
			t.Fatalf("%q, %v", n, err)
		}
	}
	if n, err := names.At(uint64(len(tab))); n != nil || err != nil {
		t.Errorf("behind the end: %q, %v", n, err)
	}
	for _, end := range []byte{0, 'a'} { // also where it doesn't end
		tab := tab[:1<<16]
		for i := range tab {
			tab[i] = 'a'
		}
		tab[len(tab)-1] = end
		names, reads := elffile.NewNames(tab), 0
		for ; reads < 1000; reads++ {
			if _, err := names.At(0); errors.Is(err, elffile.ErrTooLarge) {
				break
			}
		}
		if reads < 4 || reads > 32 {
			t.Errorf("a string of 64 KiB was read %d times", reads)
		}
	}
}

func TestIsString(t *testing.T) {
	tab := []byte("\x00ab\x00abc")
	for _, tt := range []struct {
		off  uint64
		s    string
		want bool
	}{{1, "ab", true}, {1, "a", false}, {1, "abc", false}, {2, "b", true}, {0, "", true}, {4, "abc", false}, {4, "ab", false}, {7, "", false}, {1 << 60, "ab", false}} {
		if got := elffile.IsString(tab, tt.off, tt.s); got != tt.want {
			t.Errorf("%d, %q: %v", tt.off, tt.s, got)
		}
	}
}
