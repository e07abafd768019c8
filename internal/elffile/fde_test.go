package elffile

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// frames is a file with a table of two functions: 0x1000 to 0x1004, 0x1009 to 0x1012.
func frames() []byte {
	const eh, header = 0x2000, 0x3000
	u32 := binary.LittleEndian.AppendUint32
	data := append(u32(u32(nil, 16), 0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0) // the CIE
	hdr := append([]byte{1, 0x1b, 0x03, 0x3b}, u32(u32(nil, 0), 2)...)
	for _, fn := range []struct{ start, size uint32 }{{0x1000, 4}, {0x1009, 9}} {
		at := eh + uint32(len(data))
		hdr = u32(u32(hdr, fn.start-header), at-header)
		data = u32(u32(u32(u32(u32(data, 16), at+4-eh), fn.start-(at+8)), fn.size), 0)
	}
	f := elfbuild.File{
		Machine: elf.EM_X86_64,
		Sections: []elfbuild.Section{
			{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Data: make([]byte, 32)},
			{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: eh, Data: data},
			{Name: ".eh_frame_hdr", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: header, Data: hdr},
		},
		Segments: []elfbuild.Segment{{Type: elf.PT_GNU_EH_FRAME, Flags: elf.PF_R, Section: ".eh_frame_hdr"}},
	}
	return f.Bytes()
}

func TestFDE(t *testing.T) {
	f, err := NewBytes(frames())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for addr, want := range map[uint64]string{
		0xfff: "0x0-0x0 false", 0x1000: "0x1000-0x1004 true", 0x1003: "0x1000-0x1004 true", 0x1008: "0x1000-0x1004 true",
		0x1009: "0x1009-0x1012 true", 1 << 40: "0x1009-0x1012 true",
	} {
		start, end, ok := f.FDE(addr)
		if got := fmt.Sprintf("%#x-%#x %v", start, end, ok); got != want {
			t.Errorf("%#x: %s, want %s", addr, got, want)
		}
	}
}

// TestFDEReadelf compares with readelf for all functions of a large program.
func TestFDEReadelf(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Tool("readelf"))
	path, err := exec.LookPath("readelf")
	if err != nil {
		t.Fatal(err)
	}
	out, err := testenv.Command(t, "readelf", "-W", "--debug-dump=frames", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for line := range strings.Lines(string(out)) {
		_, pcs, ok := strings.Cut(line, " pc=")
		var start, end uint64
		if _, err := fmt.Sscanf(pcs, "%x..%x", &start, &end); !ok || err != nil {
			continue
		}
		n++
		for _, pc := range []uint64{start, end - 1} {
			if s, e, ok := f.FDE(pc); !ok || s != start || e != end {
				t.Fatalf("%#x: %#x-%#x %v, readelf has %#x-%#x", pc, s, e, ok, start, end)
			}
		}
	}
	if n < 100 {
		t.Errorf("readelf shows %d functions", n)
	}
}

// FuzzFDE changes bytes of the tables: what is found begins at or below the address.
func FuzzFDE(f *testing.F) {
	orig := frames()
	f.Add(uint16(0x2000), uint64(0), uint64(0x1003))
	f.Fuzz(func(t *testing.T, at uint16, v, addr uint64) {
		b := append([]byte(nil), orig...)
		for i := range 8 {
			b[(int(at)+i)%len(b)] ^= byte(v >> (8 * i))
		}
		file, err := NewBytes(b)
		if err != nil {
			return
		}
		defer file.Close()
		if start, end, ok := file.FDE(addr); ok && (start > addr || end < start) {
			t.Errorf("%#x: %#x to %#x", addr, start, end)
		}
	})
}
