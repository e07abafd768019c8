package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/borescope/borescope/internal/decompress"
)

// BTF finds the kernel's types in its image: plain, or packed somewhere in it.
func BTF(image []byte) ([]byte, error) {
	if raw := findBTF(image); raw != nil {
		return raw, nil
	}
	for i := range image {
		f := decompress.Detect(image[i:])
		if f == decompress.None {
			continue
		}
		r, err := decompress.NewReader(f, image[i:], 1<<30)
		if err != nil {
			continue
		}
		var out bytes.Buffer
		_, _ = out.ReadFrom(r) // ends with an error where the packed kernel does
		_ = r.Close()
		if raw := findBTF(out.Bytes()); raw != nil {
			return raw, nil
		}
	}
	return nil, errors.New("the image has no BTF")
}

// findBTF finds a kernel's BTF by its header: magic, version 1, flags 0, the
// header's length, and types that begin behind it.
func findBTF(b []byte) []byte {
	head := []byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0}
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], head)
		if i < 0 {
			return nil
		}
		at += i
		if len(b) < at+24 {
			return nil
		}
		word := func(off int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at+off:])) }
		end := uint64(at) + 24 + word(16) + word(20)
		if word(8) == 0 && word(12) == word(16) && word(12) > 1<<20 && end <= uint64(len(b)) {
			return b[at:end]
		}
	}
}
