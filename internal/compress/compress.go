// Package compress compresses and decompresses independent blocks of data as zstd frames: the
// chunks of a recording. It starts no goroutine and uses little memory. Package decompress is
// for formats that other programs wrote.
package compress

import "github.com/klauspost/compress/zstd"

// Encoder compresses blocks. It is safe for concurrent use.
type Encoder struct{ z *zstd.Encoder }

// NewEncoder returns an Encoder. It needs no Close.
func NewEncoder() (*Encoder, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	return &Encoder{z}, err
}

// Append appends the compressed block to dst.
func (e *Encoder) Append(dst, block []byte) []byte { return e.z.EncodeAll(block, dst) }

// Decoder decompresses blocks of a bounded size. It is safe for concurrent use.
type Decoder struct{ z *zstd.Decoder }

// NewDecoder returns a Decoder for blocks of at most limit bytes. It needs no Close.
func NewDecoder(limit uint64) (*Decoder, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(limit), zstd.WithDecoderMaxWindow(limit),
		zstd.WithDecodeAllCapLimit(true))
	return &Decoder{z}, err
}

// Append appends the decompressed block to dst, which must have the capacity for all of it. It
// returns an error if the block is longer than that or the limit, or if packed is damaged.
func (d *Decoder) Append(dst, packed []byte) ([]byte, error) { return d.z.DecodeAll(packed, dst) }
