package stack

import (
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/borescope/borescope/stack/internal/rules"
)

// recordedKernel is a kernel stack that an event hit, on one kernel: registers,
// the words that its walk reads, the ORC rules for its frames, and the frames that
// bpf_get_stack found for the same event. TestORCMatchesKernel of package collect
// makes them (-record-kernel).
type recordedKernel struct {
	Recipe, Oracle string
	Regs           map[int]uint64
	Memory         map[string]string
	Rules          map[string]rules.ORC
	Frames         []string
	End            StopReason
}

func hexNumber(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Recorded kernel stacks of each kernel have the frames that it found itself.
func TestRecordedKernelWalks(t *testing.T) {
	files, err := filepath.Glob("testdata/kernel/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var walks []recordedKernel
		if err := json.Unmarshal(b, &walks); err != nil || len(walks) < 4 {
			t.Fatalf("%s: %d stacks, %v", file, len(walks), err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			for i := range walks {
				walks[i].check(t)
			}
		})
	}
}

func (w *recordedKernel) check(t *testing.T) {
	regs := &Regs{Machine: elf.EM_X86_64}
	for n, v := range w.Regs {
		regs.Set(n, v)
	}
	var ranges []MemoryRange
	for at, s := range w.Memory {
		data, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, MemoryRange{hexNumber(t, at), data})
	}
	var walker ORCWalker
	for at, rule := range w.Rules {
		addr := hexNumber(t, at)
		walker.Tables = append(walker.Tables, &ORCTable{
			base: addr, Start: addr, End: addr + 1, pcs: []uint32{0}, index: []uint16{0}, rules: []rules.ORC{rule},
		})
	}
	var want []uint64
	for _, s := range w.Frames {
		want = append(want, hexNumber(t, s))
	}
	var dst [MaxFrames]Frame
	n, end := walker.Walk(dst[:], regs, recordedWords(ranges))
	if got := pcs(dst[:n]); !slices.Equal(got, want) || end != w.End {
		t.Errorf("%s\n got %#x %v\nwant %#x %v", w.Recipe, got, end, want, w.End)
	}
}

// recordedWords answers the reads that were recorded, which may overlap.
type recordedWords []MemoryRange

func (r recordedWords) ReadMemory(dst []byte, addr uint64) error {
	for _, m := range r {
		if m.ReadMemory(dst, addr) == nil {
			return nil
		}
	}
	return ErrNoMemory
}
