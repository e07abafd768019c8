package feature

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/borescope/borescope/internal/rawbtf"
)

const vmlinuxBTF = "/sys/kernel/btf/vmlinux"

// errNoBTFType is the error for a name that is not in the kernel's BTF.
var errNoBTFType = errors.New("not in the kernel's BTF")

// btfID returns the id of the kernel's type of the given kind and name. It streams, to avoid 5
// MB of memory for a kernel's BTF.
func btfID(kind uint32, name string) (uint32, error) {
	f, err := os.Open(vmlinuxBTF)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	id, err := findBTF(f, kind, name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

type btfHeader struct {
	Magic                            uint16
	Version, Flags                   uint8
	HdrLen                           uint32
	TypeOff, TypeLen, StrOff, StrLen uint32
}

func findBTF(r io.ReaderAt, kind uint32, name string) (uint32, error) {
	var h btfHeader
	if err := binary.Read(io.NewSectionReader(r, 0, 24), binary.NativeEndian, &h); err != nil {
		return 0, err
	}
	if h.Magic != rawbtf.Magic {
		return 0, fmt.Errorf("bad BTF magic %#x", h.Magic)
	}
	strings := io.NewSectionReader(r, int64(h.HdrLen)+int64(h.StrOff), int64(h.StrLen))
	nameOff, err := findString(strings, name)
	if err != nil {
		return 0, err
	}
	types := io.NewSectionReader(r, int64(h.HdrLen)+int64(h.TypeOff), int64(h.TypeLen))
	return findType(bufio.NewReaderSize(types, 64<<10), kind, nameOff)
}

// findString returns the offset of a whole string in a BTF string section.
func findString(r io.Reader, name string) (uint32, error) {
	br := bufio.NewReader(r)
	want := append([]byte(name), 0)
	off := 0
	for {
		s, err := br.ReadSlice(0)
		if bytes.Equal(s, want) {
			return uint32(off), nil
		}
		off += len(s)
		if err == io.EOF {
			return 0, errNoBTFType
		}
		if err != nil {
			return 0, err
		}
	}
}

func findType(r *bufio.Reader, kind, nameOff uint32) (uint32, error) {
	var head [12]byte
	for id := uint32(1); ; id++ {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return 0, errNoBTFType
		} else if err != nil {
			return 0, err
		}
		k, vlen := rawbtf.Info(binary.NativeEndian.Uint32(head[4:]))
		if k == kind && binary.NativeEndian.Uint32(head[:]) == nameOff {
			return id, nil
		}
		skip, ok := rawbtf.Extra(k, vlen)
		if !ok {
			return 0, fmt.Errorf("type %d is of the unknown kind %d", id, k)
		}
		if _, err := r.Discard(skip); err != nil {
			return 0, err
		}
	}
}
