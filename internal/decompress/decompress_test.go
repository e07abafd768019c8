package decompress

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"github.com/borescope/borescope/internal/testenv"
)

// compressed returns text in a format.
func compressed(tb testing.TB, f Format, text []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch f {
	case None:
		return text
	case Zlib:
		w = zlib.NewWriter(&b)
	case Gzip:
		w = gzip.NewWriter(&b)
	case Zstd:
		w, err = zstd.NewWriter(&b)
	case XZ:
		w, err = xz.NewWriter(&b)
	case LZMA:
		w, err = lzma.NewWriter(&b)
	case LZ4:
		w = lz4.NewWriter(&b)
	case LZ4Legacy:
		return legacy(tb, text)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func legacy(tb testing.TB, text []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, legacyMagic)
	for len(text) > 0 {
		n := min(len(text), legacyBlock)
		b := make([]byte, lz4.CompressBlockBound(n))
		m, err := lz4.CompressBlock(text[:n], b, nil)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(m)), b[:m]...)
		text = text[n:]
	}
	return out
}

var formats = []Format{None, Zlib, Gzip, Zstd, XZ, LZMA, LZ4, LZ4Legacy}

func TestFormats(t *testing.T) {
	text := bytes.Repeat([]byte("all work and no play makes Jack a dull boy\n"), 5000)
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			b := compressed(t, f, text)
			got, err := Bytes(f, b, int64(len(text)))
			if err != nil || !bytes.Equal(got, text) {
				t.Fatalf("%d of %d bytes: %v", len(got), len(text), err)
			}
			if _, err := Bytes(f, b, int64(len(text))-1); !errors.Is(err, ErrTooLarge) {
				t.Errorf("more than stated: %v", err)
			}
			if _, err := Bytes(f, b, int64(len(text))+1); err == nil {
				t.Error("less than stated: no error")
			}
			if got, err := All(f, b, 1<<20); err != nil || !bytes.Equal(got, text) {
				t.Errorf("All: %d bytes, %v", len(got), err)
			}
			if _, err := All(f, b, 1000); !errors.Is(err, ErrTooLarge) {
				t.Errorf("above the limit: %v", err)
			}
			if f != None {
				if _, err := Bytes(f, b[:len(b)/2], int64(len(text))); err == nil {
					t.Error("cut off: no error")
				}
			}
			if f != None && f != Zlib && Detect(b) != f {
				t.Errorf("detected as %v", Detect(b))
			}
		})
	}
	if _, err := Bytes(Format(99), nil, 0); err == nil {
		t.Error("unknown format: no error")
	}
	if _, err := Bytes(Zlib, nil, -1); err == nil {
		t.Error("negative size: no error")
	}
}

// TestTools reads what the usual tools write.
func TestTools(t *testing.T) {
	text := strings.Repeat("borescope\n", 4000)
	for _, c := range []struct {
		format Format
		cmd    string
	}{
		{Gzip, "gzip -c"},
		{Zstd, "zstd -c"},
		{XZ, "xz -c"},
		{XZ, "xz --check=crc32 --lzma2=dict=32MiB -c"},
		{LZMA, "lzma -c"},
		{LZ4, "lz4 -c"},
		{LZ4Legacy, "lz4 -l -c"},
	} {
		args := strings.Fields(c.cmd)
		path, err := exec.LookPath(args[0])
		if err != nil {
			continue
		}
		cmd := testenv.Command(t, path, args[1:]...)
		cmd.Stdin = strings.NewReader(text)
		b, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.cmd, err)
		}
		if Detect(b) != c.format {
			t.Errorf("%s is detected as %v", c.cmd, Detect(b))
		}
		// The kernel's build appends the size to lz4 images.
		if c.format == LZ4Legacy {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		}
		if got, err := All(c.format, b, 1<<20); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", c.cmd, len(got), err)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, format := range formats {
		f.Add(uint8(format), compressed(f, format, []byte(strings.Repeat("fuzz ", 100))))
	}
	f.Fuzz(func(t *testing.T, format uint8, b []byte) {
		const limit = 1 << 20
		out, err := All(Format(format), b, limit)
		if err == nil && len(out) > limit {
			t.Fatalf("%d bytes", len(out))
		}
	})
}
