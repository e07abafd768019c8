package decompress

import (
	"bytes"
	"compress/zlib"
	"errors"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// inflateTexts are texts that make blocks of all kinds.
func inflateTexts(tb testing.TB) [][]byte {
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.ReadFile(exe)
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	skewed := make([]byte, 300_000) // rare symbols get long codes
	for i := range skewed {
		skewed[i] = byte(rng.ExpFloat64() * 6)
	}
	return [][]byte{
		nil,
		{0},
		[]byte("hello"), []byte("hello hello hello hello"), noise, skewed,
		bytes.Repeat([]byte{7}, 100_000), bytes.Repeat([]byte("abcdefg"), 20_000), self[:min(len(self), 1<<20)],
	}
}

// TestInflate compares with compress/zlib at all its levels.
func TestInflate(t *testing.T) {
	testenv.Need(t, testenv.Long)
	for i, text := range inflateTexts(t) {
		for level := zlib.HuffmanOnly; level <= zlib.BestCompression; level++ {
			var b bytes.Buffer
			w, err := zlib.NewWriterLevel(&b, level)
			if err != nil {
				t.Fatal(err)
			}
			w.Write(text)
			w.Close()
			got := make([]byte, len(text))
			if err := unzlib(got, b.Bytes()); err != nil || !bytes.Equal(got, text) {
				t.Errorf("text %d, level %d: %v", i, level, err)
			}
			if err := unzlib(make([]byte, len(text)+1), b.Bytes()); !errors.Is(err, errShort) {
				t.Errorf("text %d, level %d: less than stated: %v", i, level, err)
			}
			if len(text) > 0 {
				if err := unzlib(make([]byte, len(text)-1), b.Bytes()); !errors.Is(err, ErrTooLarge) {
					t.Errorf("text %d, level %d: more than stated: %v", i, level, err)
				}
			}
			for cut := 0; cut < b.Len(); cut += 1 + b.Len()/7 {
				if err := unzlib(got, b.Bytes()[:cut]); err == nil {
					t.Errorf("text %d, level %d: cut off at %d: no error", i, level, cut)
				}
			}
		}
	}
}

// FuzzInflate agrees with compress/zlib on anything.
func FuzzInflate(f *testing.F) {
	for _, text := range inflateTexts(f) {
		f.Add(compressed(f, Zlib, text[:min(len(text), 2000)]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 18
		var want []byte
		r, err := zlib.NewReader(bytes.NewReader(b))
		if err == nil {
			want, err = io.ReadAll(io.LimitReader(r, limit+1))
		}
		if len(want) > limit {
			return
		}
		got := make([]byte, len(want))
		mine := unzlib(got, b)
		if (mine == nil) != (err == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("compress/zlib says %v, got %v", err, mine)
		}
	})
}

func BenchmarkInflate(b *testing.B) {
	texts := inflateTexts(b)
	text := texts[len(texts)-1]
	in := compressed(b, Zlib, text)
	out := make([]byte, len(text))
	b.Run("here", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if err := unzlib(out, in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reader", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := appendAll(Zlib, in, int64(len(text)), int64(len(text))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestAdler compares with hash/adler32: short texts of all lengths, the largest
// sums, and more than is summed up at once.
func TestAdler(t *testing.T) {
	most := bytes.Repeat([]byte{255}, 3<<20+5)
	rng := rand.New(rand.NewPCG(3, 4))
	some := make([]byte, 100)
	for i := range some {
		some[i] = byte(rng.Uint32())
	}
	for n := range some {
		if got, want := adler(some[n:]), adler32.Checksum(some[n:]); got != want {
			t.Errorf("%d bytes: %#x instead of %#x", len(some)-n, got, want)
		}
	}
	for _, n := range []int{0, 1 << 20, 1<<20 + 7, len(most)} {
		if got, want := adler(most[:n]), adler32.Checksum(most[:n]); got != want {
			t.Errorf("%d bytes of 255: %#x instead of %#x", n, got, want)
		}
	}
}
