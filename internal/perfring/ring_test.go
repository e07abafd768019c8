package perfring

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"
)

// newMem makes a ring of size bytes at an 8-byte boundary, as the kernel would map it.
func newMem(size int) []byte {
	words := make([]uint64, (4096+size)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	binary.NativeEndian.PutUint64(mem[offDataOffset:], 4096)
	binary.NativeEndian.PutUint64(mem[offDataSize:], uint64(size))
	return mem
}

// put writes a record as the kernel does, and moves the head.
func put(mem []byte, typ uint32, misc uint16, data []byte) {
	rec := binary.NativeEndian.AppendUint32(nil, typ)
	rec = binary.NativeEndian.AppendUint16(rec, misc)
	rec = binary.NativeEndian.AppendUint16(rec, uint16(headerSize+len(data)))
	rec = append(rec, data...)
	head := binary.NativeEndian.Uint64(mem[offDataHead:])
	size := binary.NativeEndian.Uint64(mem[offDataSize:])
	for i, b := range rec {
		mem[4096+(head+uint64(i))%size] = b
	}
	binary.NativeEndian.PutUint64(mem[offDataHead:], head+uint64(len(rec)))
}

func TestRingWraps(t *testing.T) {
	mem := newMem(256)
	r, err := New(mem)
	if err != nil {
		t.Fatal(err)
	}
	var rec Raw
	for i := range 1000 {
		data := bytes.Repeat([]byte{byte(i)}, 8*(1+i%12))
		put(mem, TypeSample, uint16(i), data)
		if !r.Next(&rec) {
			t.Fatalf("record %d: none", i)
		}
		if rec.Type != TypeSample || rec.Misc != uint16(i) || !bytes.Equal(rec.Data, data) {
			t.Fatalf("record %d: %+v", i, rec)
		}
		if r.Next(&rec) {
			t.Fatalf("record %d: one more", i)
		}
	}
	if s := r.Stats(); s.Records != 1000 || s.Corrupt != 0 {
		t.Errorf("stats %+v", s)
	}
	if head, tail := binary.NativeEndian.Uint64(mem[offDataHead:]), binary.NativeEndian.Uint64(mem[offDataTail:]); head != tail {
		t.Errorf("head %d, tail %d: place not given back", head, tail)
	}
}

// TestRingKeepsNothing: a record must be copied out, since the kernel may write
// its place again at once.
func TestRingKeepsNothing(t *testing.T) {
	mem := newMem(64)
	r, _ := New(mem)
	put(mem, TypeSample, 0, []byte("01234567"))
	var rec Raw
	r.Next(&rec)
	clear(mem[4096:])
	if string(rec.Data) != "01234567" {
		t.Errorf("record changed with the ring: %q", rec.Data)
	}
}

func TestRingLost(t *testing.T) {
	mem := newMem(256)
	r, _ := New(mem)
	put(mem, TypeLost, 0, binary.NativeEndian.AppendUint64(make([]byte, 8), 7))
	put(mem, TypeLostSamples, 0, binary.NativeEndian.AppendUint64(nil, 5))
	var rec Raw
	for r.Next(&rec) {
	}
	if s := r.Stats(); s.Lost != 12 || s.Records != 2 {
		t.Errorf("stats %+v, want 12 lost", s)
	}
}

func TestRingCorrupt(t *testing.T) {
	for name, spoil := range map[string]func(mem []byte){
		"size zero":       func(m []byte) { binary.NativeEndian.PutUint16(m[4096+6:], 0) },
		"size too large":  func(m []byte) { binary.NativeEndian.PutUint16(m[4096+6:], 64) },
		"size odd":        func(m []byte) { binary.NativeEndian.PutUint16(m[4096+6:], 13) },
		"head far ahead":  func(m []byte) { binary.NativeEndian.PutUint64(m[offDataHead:], 1<<40) },
		"head goes back":  func(m []byte) { binary.NativeEndian.PutUint64(m[offDataHead:], ^uint64(0)-7) },
		"half a header":   func(m []byte) { binary.NativeEndian.PutUint64(m[offDataHead:], 4) },
		"head not at all": func(m []byte) { binary.NativeEndian.PutUint64(m[offDataHead:], 300) },
	} {
		mem := newMem(256)
		r, _ := New(mem)
		put(mem, TypeSample, 0, make([]byte, 16))
		spoil(mem)
		var rec Raw
		if r.Next(&rec) {
			t.Errorf("%s: read %+v", name, rec)
		}
		if s := r.Stats(); s.Corrupt != 1 || s.CorruptBytes == 0 {
			t.Errorf("%s: stats %+v", name, s)
		}
		// It goes on with what comes next.
		put(mem, TypeComm, 0, make([]byte, 16))
		if !r.Next(&rec) || rec.Type != TypeComm {
			t.Errorf("%s: does not go on: %+v", name, rec)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, spoil := range map[string]func([]byte){
		"no data":          func(m []byte) { binary.NativeEndian.PutUint64(m[offDataSize:], 0) },
		"no power of two":  func(m []byte) { binary.NativeEndian.PutUint64(m[offDataSize:], 96) },
		"beyond memory":    func(m []byte) { binary.NativeEndian.PutUint64(m[offDataSize:], 512) },
		"offset huge":      func(m []byte) { binary.NativeEndian.PutUint64(m[offDataOffset:], ^uint64(0)-100) },
		"over the page":    func(m []byte) { binary.NativeEndian.PutUint64(m[offDataOffset:], 8) },
		"size overflowing": func(m []byte) { binary.NativeEndian.PutUint64(m[offDataSize:], 1<<63) },
	} {
		mem := newMem(256)
		spoil(mem)
		if _, err := New(mem); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(make([]byte, 100)); err == nil {
		t.Error("100 bytes accepted")
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	mem := newMem(4096)
	r, _ := New(mem)
	f := Format{SampleType: SampleIP | SampleTID | SampleTime | SampleCallchain}
	var b []byte
	for _, v := range []uint64{0x1000, 7<<32 | 7, 99, 3, 1, 2, 3} {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	var raw Raw
	var rec Record
	step := func() {
		// put without its allocations
		head := binary.NativeEndian.Uint64(mem[offDataHead:])
		at := 4096 + head%4096
		binary.NativeEndian.PutUint32(mem[at:], TypeSample)
		binary.NativeEndian.PutUint16(mem[at+6:], 64)
		copy(mem[at+8:at+64], b)
		binary.NativeEndian.PutUint64(mem[offDataHead:], head+64)
		if !r.Next(&raw) || f.Decode(&raw, &rec) != nil || len(rec.Sample.Callchain) != 3 {
			t.Fatalf("%+v", rec.Sample)
		}
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}

// FuzzRing: whatever is in the memory, reading ends, stays inside and accounts
// for every byte up to the head.
func FuzzRing(f *testing.F) {
	mem := newMem(128)
	put(mem, TypeComm, 0, []byte("12345678name\x00\x00\x00\x00"))
	f.Add(mem[4096:], uint64(24), uint64(0))
	f.Add(make([]byte, 128), ^uint64(0), uint64(8))
	f.Fuzz(func(t *testing.T, data []byte, head, tail uint64) {
		mem := newMem(128)
		copy(mem[4096:], data)
		binary.NativeEndian.PutUint64(mem[offDataHead:], head)
		binary.NativeEndian.PutUint64(mem[offDataTail:], tail)
		r, err := New(mem)
		if err != nil {
			t.Fatal(err)
		}
		var rec Raw
		var bytes uint64
		for n := 0; r.Next(&rec); n++ {
			bytes += headerSize + uint64(len(rec.Data))
			if n > 128/headerSize {
				t.Fatal("more records than fit")
			}
		}
		if bytes+r.Stats().CorruptBytes != head-tail {
			t.Fatalf("%d read + %d skipped of %d", bytes, r.Stats().CorruptBytes, head-tail)
		}
	})
}
