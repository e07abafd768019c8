package decompress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/borescope/borescope/internal/meter"
)

// withDict sets the dictionary that an xz stream's first block asks for.
func withDict(b []byte, code byte) []byte {
	b = bytes.Clone(b)
	head := b[xzHeader : xzHeader+(int(b[xzHeader])+1)*4]
	dict, err := new(xzBlock).parse(head)
	if err != nil {
		panic(err)
	}
	head[dict] = code
	binary.LittleEndian.PutUint32(head[len(head)-4:], crc32.ChecksumIEEE(head[:len(head)-4]))
	return b
}

// Headers of a few bytes asked for dictionaries of up to 4 GiB, and got them. They
// get what can be referred to, and their data is read all the same.
func TestDictionaries(t *testing.T) {
	text := []byte(strings.Repeat("a dictionary. ", 1<<10))
	lzmaText := compressed(t, LZMA, text)
	binary.LittleEndian.PutUint32(lzmaText[1:], 1<<31-1)
	var big bytes.Buffer
	w, err := zstd.NewWriter(&big, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, io.LimitReader(zeros{}, 9<<20)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	const most = 20 << 20
	for _, tt := range []struct {
		name string
		f    Format
		b    []byte
		want error
	}{
		{"xz", XZ, withDict(compressed(t, XZ, text), 40), nil},
		{"xz-1.5GiB", XZ, withDict(compressed(t, XZ, text), 39), nil},
		{"lzma", LZMA, lzmaText, nil},
		{"zstd", Zstd, big.Bytes(), zstd.ErrWindowSizeExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []byte
			var err error
			n := meter.Allocated(func() { got, err = All(tt.f, tt.b, 1<<20) })
			if !errors.Is(err, tt.want) || err == nil && !bytes.Equal(got, text) {
				t.Errorf("%d bytes, %v; want %d bytes, %v", len(got), err, len(text), tt.want)
			}
			if n > most {
				t.Errorf("%d bytes of input took %d bytes of memory, want at most %d", len(tt.b), n, most)
			}
		})
	}
}

// zeros reads as zeros for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Blocks follow each other, each with a dictionary of its own: the second one's is
// cut as well. What a block holds counts before it is decompressed.
func TestDictionaryOfEachBlock(t *testing.T) {
	text := []byte(strings.Repeat("block after block ", 1<<12))
	for _, check := range []byte{xz.None, xz.CRC32, xz.CRC64, xz.SHA256} {
		var b bytes.Buffer
		w, err := xz.WriterConfig{BlockSize: 16 << 10, CheckSum: check, NoCheckSum: check == xz.None}.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		parts, _, err := xzParts(bytes.NewReader(b.Bytes()), int64(b.Len()), 1<<30)
		if want := 2*((len(text)+16<<10-1)>>14) + 1; err != nil || len(parts) != want {
			t.Fatalf("check %d: %d parts, %v; want %d", check, len(parts), err, want)
		}
		got, err := All(XZ, b.Bytes(), int64(len(text)))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("check %d: %d bytes, %v; want %d", check, len(got), err, len(text))
		}
		if _, err := All(XZ, b.Bytes(), int64(len(text)-1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("check %d: one byte too many: %v, want %v", check, err, ErrTooLarge)
		}
	}
}
