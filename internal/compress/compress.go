// Package compress packs and unpacks blocks of data that stand alone, as zstd
// frames: the chunks of a recording. It starts no goroutine and keeps its memory
// small; package decompress is for formats that others wrote.
package compress

import "github.com/klauspost/compress/zstd"

// Encoder packs blocks. It is safe for concurrent use.
type Encoder struct{ z *zstd.Encoder }

// NewEncoder returns an Encoder. It holds no resource.
func NewEncoder() (*Encoder, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	return &Encoder{z}, err
}

// Append appends the packed form of block to dst.
func (e *Encoder) Append(dst, block []byte) []byte { return e.z.EncodeAll(block, dst) }

// Decoder unpacks blocks of a bounded size. It is safe for concurrent use.
type Decoder struct{ z *zstd.Decoder }

// NewDecoder returns a Decoder for blocks of at most limit bytes. It holds no
// resource.
func NewDecoder(limit uint64) (*Decoder, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(limit), zstd.WithDecoderMaxWindow(limit))
	return &Decoder{z}, err
}

// Append appends the block that packed holds to dst. It is an error if the block
// is larger than the limit, what dst holds included, or packed is damaged.
func (d *Decoder) Append(dst, packed []byte) ([]byte, error) { return d.z.DecodeAll(packed, dst) }
