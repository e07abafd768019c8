package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// jitWriter makes a jitdump.
type jitWriter struct {
	o binary.ByteOrder
	bytes.Buffer
}

func newJITWriter(o binary.ByteOrder) *jitWriter {
	w := &jitWriter{o: o}
	w.put(uint32(jitMagic), uint32(1), uint32(40), uint32(62), uint32(0), uint32(7), uint64(0), uint64(0))
	return w
}

func (w *jitWriter) put(values ...any) {
	for _, v := range values {
		_ = binary.Write(&w.Buffer, w.o, v)
	}
}

func (w *jitWriter) record(id uint32, body []byte) {
	w.put(id, uint32(16+len(body)), uint64(1), body)
}

func (w *jitWriter) load(addr, size, index uint64, name string) {
	b := &jitWriter{o: w.o}
	b.put(uint32(7), uint32(7), addr, addr, size, index, []byte(name+"\x00"), make([]byte, size))
	w.record(jitCodeLoad, b.Bytes())
}

func (w *jitWriter) move(addr, size, index uint64) {
	b := &jitWriter{o: w.o}
	b.put(uint32(7), uint32(7), addr, uint64(0), addr, size, index)
	w.record(jitCodeMove, b.Bytes())
}

func (w *jitWriter) debug(addr uint64, lines ...any) {
	b := &jitWriter{o: w.o}
	b.put(addr, uint64(len(lines)/3))
	for i := 0; i+2 < len(lines); i += 3 {
		b.put(addr+uint64(lines[i].(int)), uint32(lines[i+1].(int)), uint32(0), []byte(lines[i+2].(string)+"\x00"))
	}
	w.record(jitDebugInfo, b.Bytes())
}

func testJITDump(o binary.ByteOrder) []byte {
	w := newJITWriter(o)
	w.debug(0x1000, 0, 10, "a.js", 8, 11, "\xff", 0x20, 3, "b.js")
	w.load(0x1000, 0x40, 1, "f")
	w.load(0x2000, 0x40, 2, "g")
	w.record(4, make([]byte, 30)) // unwind records are skipped
	w.move(0x3000, 0x40, 1)
	w.load(0x1020, 0x10, 3, "over")
	w.record(3, nil)
	return w.Bytes()
}

func TestJITDump(t *testing.T) {
	for _, o := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		whole := testJITDump(o)
		d, err := ParseJITDump(bytes.NewReader(whole))
		if err != nil || d.Truncated || len(d.m.ents) != 4 || d.Bad() != 0 {
			t.Fatalf("%v: %v, %d entries", o, err, len(d.m.ents))
		}
		for _, c := range []struct {
			pc   uint64
			want string
		}{
			{0x1000, "f+0 a.js:10"},
			{0x1009, "f+9 a.js:11"},
			{0x1021, "over+1 :0"},
			{0x1035, "f+53 b.js:3"},
			{0x2005, "g+5 :0"},
			{0x3009, "f+9 a.js:11"},
			{0x3040, "+0 :0"},
			{0xfff, "+0 :0"},
		} {
			f := d.Resolve(nil, []uint64{c.pc})[0]
			if got := fmt.Sprintf("%s+%d %s:%d", f.Name, f.Offset, f.File, f.Line); got != c.want {
				t.Errorf("%v %#x: got %s, want %s", o, c.pc, got, c.want)
			}
		}
		for n := range whole {
			d, err := ParseJITDump(bytes.NewReader(whole[:n]))
			if n < 40 && !errors.Is(err, errJIT) || n >= 40 && err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
			if err == nil && n > 44 && n < 100 && !d.Truncated {
				t.Fatalf("cut at %d: not noticed", n)
			}
		}
	}
	for _, bad := range []string{"", "JiTD", strings.Repeat("x", 100)} {
		if _, err := ParseJITDump(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestNodeJIT compares node's two descriptions of its code with each other.
func TestNodeJIT(t *testing.T) {
	testenv.Need(t, testenv.Tool("node"), testenv.Long)
	dir := t.TempDir()
	script := `let s = 0; function hotLoop(n) { for (let i = 0; i < n; i++) s += i % 7; return s }
for (let k = 0; k < 300; k++) hotLoop(10000); console.log(process.pid)`
	cmd := testenv.Command(t, "node", "--perf-prof", "--perf-basic-prof", "-e", script)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(out))
	mapPath := "/tmp/perf-" + pid + ".map"
	defer os.Remove(mapPath)
	mf, err := os.Open(mapPath)
	if err != nil {
		t.Fatal(err)
	}
	defer mf.Close()
	m, err := ParsePerfMap(mf)
	if err != nil || m.Bad != 0 {
		t.Fatalf("perf map: %v, %d bad lines", err, m.Bad)
	}
	df, err := os.Open(filepath.Join(dir, "jit-"+pid+".dump"))
	if err != nil {
		t.Fatal(err)
	}
	defer df.Close()
	d, err := ParseJITDump(df)
	if err != nil || d.Bad() != 0 {
		t.Fatalf("jitdump: %v, %d bad records", err, d.Bad())
	}
	same, differ, hot := 0, 0, 0
	for i := range d.m.entry {
		pc := d.m.starts.At(i)
		a, b := d.Resolve(nil, []uint64{pc})[0], m.Resolve(nil, []uint64{pc})[0]
		if b.Name == "" {
			continue
		}
		if strings.Contains(a.Name, "hotLoop") {
			hot++
		}
		// The same function in the same tier: "JS:*hotLoop file:1:2".
		if a.Name == b.Name || strings.HasPrefix(b.Name, a.Name) || strings.HasPrefix(a.Name, b.Name) {
			same++
		} else if differ++; differ < 5 {
			t.Logf("%#x: jitdump %q, perf map %q", pc, a.Name, b.Name)
		}
	}
	t.Logf("%d names are the same, %d differ, %d of the loop", same, differ, hot)
	if same < 100 || differ*20 > same || hot == 0 {
		t.Errorf("%d names are the same, %d differ, %d of the loop", same, differ, hot)
	}
}

func FuzzJITDump(f *testing.F) {
	f.Add(testJITDump(binary.LittleEndian))
	f.Add(testJITDump(binary.BigEndian))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseJITDump(bytes.NewReader(b))
		if err != nil {
			return
		}
		for i := range d.m.ents {
			e := &d.m.ents[i]
			fr := d.Resolve(nil, []uint64{e.start})[0]
			if fr.Name == "" || fr.Offset >= fr.Size {
				t.Fatalf("%#x: %+v", e.start, fr)
			}
		}
		if d.bytes() > 1<<16+64*int64(len(b)) {
			t.Fatalf("%d bytes hold %d", len(b), d.bytes())
		}
	})
}
