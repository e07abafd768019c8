package elffile_test

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
)

// counted counts how many bytes are read of a file.
type counted struct {
	fs.File
	n *int
}

func (c counted) ReadAt(b []byte, off int64) (int, error) {
	*c.n += len(b)
	return c.File.(io.ReaderAt).ReadAt(b, off)
}

// TestDebugSumAsksFirst: a debug file was read whole, and then it was asked whether
// there is a share of the work left for that.
func TestDebugSumAsksFirst(t *testing.T) {
	const size = 4 << 20
	section := func(name string, data []byte) []byte {
		return elfbuild.Program(elfbuild.Section{Name: name, Type: elf.SHT_PROGBITS, Data: data, Align: 4}).Bytes()
	}
	program, err := elffile.NewBytes(section(".gnu_debuglink", binary.LittleEndian.AppendUint32([]byte("x.debug\x00"), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	debug := section(".filler", make([]byte, size))
	tree := fstest.MapFS{"x.debug": {Data: debug}}
	for _, left := range []bool{false, true} {
		read, asked := 0, int64(0)
		d := elffile.DebugFinder{Path: "/x"}
		d.Open = func(name string) (fs.File, error) {
			f, err := tree.Open(strings.TrimLeft(name, "/"))
			return counted{f, &read}, err
		}
		d.Start = func(n int64) error {
			if asked += n; !left {
				return errors.New("nothing is left")
			}
			return nil
		}
		if d.Find(program, "") != nil {
			t.Error("a file with another sum was taken")
		}
		if asked != int64(len(debug)) || (read >= size) != left {
			t.Errorf("a share is left: %v; asked for %d, and %d of %d bytes were read", left, asked, read, len(debug))
		}
	}
}
