package decompress

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/borescope/borescope/internal/meter"
)

func FuzzSpool(f *testing.F) {
	f.Add([]byte("abc"), uint16(3), uint8(1), true)
	f.Add([]byte{0}, uint16(1000), uint8(200), false)
	f.Fuzz(func(t *testing.T, text []byte, repeat uint16, zeros uint8, spill bool) {
		data := bytes.Repeat(text, int(repeat)%(1+(1<<20)/(len(text)+1)))
		data = append(data, make([]byte, int(zeros)<<12)...)
		data = append(data, text...)
		b := Bounds{Size: 1 << 30, Content: 1 << 30, Memory: 1 << 30}
		if spill {
			b.Memory = 0
		}
		s, err := Spool(bytes.NewReader(data), b)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := io.ReadAll(io.NewSectionReader(s, 0, s.Size()+1))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes of %d: %v", len(got), len(data), err)
		}
		if s.Size() != int64(len(data)) || s.Stored() > s.Size() {
			t.Errorf("size %d, stored %d; want %d", s.Size(), s.Stored(), len(data))
		}
		for off := range int64(len(data)) / 4099 {
			var one [3]byte
			if n, _ := s.ReadAt(one[:], off*4099); !bytes.Equal(one[:n], data[off*4099:][:n]) || n == 0 {
				t.Fatalf("%x at %d", one[:n], off*4099)
			}
		}
	})
}

// Zeros take neither memory nor storage, other data up to its bound, and nothing remains.
func TestSpoolBounds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	zeroReader := func(n int64) io.Reader { return io.LimitReader(zeros{}, n) }
	b := Bounds{Size: 1 << 30, Content: 1 << 20, Memory: 1 << 19}
	var s *Spooled
	var err error
	if mem := meter.Allocated(func() { s, err = Spool(zeroReader(1<<30), b) }); err != nil || mem > 4<<20 {
		t.Errorf("zeros: %d bytes of memory, %v", mem, err)
	}
	if s.Size() != 1<<30 || s.Stored() != 0 {
		t.Errorf("zeros: %d of %d", s.Stored(), s.Size())
	}
	if _, err := Spool(zeroReader(1<<30+1), b); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more zeros: %v", err)
	}
	text := bytes.Repeat([]byte("text"), 1<<18)
	if s, err = Spool(bytes.NewReader(text), b); err != nil || s.file == nil {
		t.Fatalf("text: %v, in memory", err)
	}
	if list, err := os.ReadDir(os.TempDir()); err != nil || len(list) > 0 {
		t.Errorf("there remains %v, %v", list, err)
	}
	if err := s.Close(); err != nil || s.Close() != nil {
		t.Error(err)
	}
	if _, err := Spool(bytes.NewReader(append(text, 'x')), b); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more text: %v", err)
	}
	wrong := errors.New("wrong")
	b.Check = func([]byte) error { return wrong }
	if _, err := Spool(zeroReader(1<<40), b); !errors.Is(err, wrong) {
		t.Errorf("checked: %v", err)
	}
	cut := io.MultiReader(zeroReader(100), cutOff{})
	if _, err := Spool(cut, Bounds{Size: 1 << 20}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

// cutOff is what decoders are at the end of data that was cut off.
type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
