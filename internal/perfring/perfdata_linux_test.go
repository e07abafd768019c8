package perfring

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// TestAgainstPerf decodes what perf record wrote and compares it with perf's own
// dump of the same file: every record of the kernel by type, and each sample's
// time, mode, task, address and call chain.
func TestAgainstPerf(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("perf"), testenv.Tool("sh"))
	file := filepath.Join(t.TempDir(), "perf.data")
	out, err := testenv.Command(t, "perf", "record", "-q", "-e", "cpu-clock", "-c", "500000", "-g", "-d", "--switch-events", "-o", file,
		"sh", "-c", "/bin/true; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done").CombinedOutput()
	if err != nil {
		t.Fatalf("perf record: %v\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raws, format := readPerfData(t, data)
	types := map[uint32]int{}
	var got []string
	for i := range raws {
		var rec Record
		if err := format.Decode(&raws[i], &rec); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		types[rec.Type]++
		if s := &rec.Sample; rec.Type == TypeSample {
			got = append(got, fmt.Sprintf("%d (IP, %#x): %d/%d: %#x %x", s.Time, rec.Misc, s.PID, s.TID, s.IP, s.Callchain))
		}
	}
	dump, err := testenv.Command(t, "perf", "script", "-i", file, "-D").Output()
	if err != nil {
		t.Fatal(err)
	}
	compareTypes(t, dump, types)
	if types[TypeSample] < 20 || types[TypeMmap2] == 0 || types[TypeComm] == 0 || types[TypeFork] == 0 || types[TypeSwitch] == 0 {
		t.Errorf("a poor recording: %v", types)
	}
	want := dumpedSamples(dump)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %d samples\n%.2000s\nperf has %d\n%.2000s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
	t.Logf("%d samples and %v records as perf has them", len(got), types)
}

// dumpedSamples reads the samples of perf script -D.
func dumpedSamples(dump []byte) (out []string) {
	head := regexp.MustCompile(`(?:^| )(\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_SAMPLE(\(IP, 0x[0-9a-f]+\): \d+/\d+: 0x[0-9a-f]+) period`)
	frame := regexp.MustCompile(`^\.\.\.\.\. +\d+: ([0-9a-f]+)$`)
	var current string
	var chain []string
	flush := func() {
		if current != "" {
			out = append(out, current+" ["+strings.Join(chain, " ")+"]")
		}
		current, chain = "", nil
	}
	for line := range strings.Lines(string(dump)) {
		line = strings.TrimSuffix(line, "\n")
		if m := head.FindStringSubmatch(line); m != nil {
			flush()
			current = m[1] + " " + m[2]
		} else if m := frame.FindStringSubmatch(line); m != nil && current != "" {
			chain = append(chain, strings.TrimLeft(m[1], "0"))
			if chain[len(chain)-1] == "" {
				chain[len(chain)-1] = "0"
			}
		} else if strings.Contains(line, "PERF_RECORD_") {
			flush()
		}
	}
	flush()
	return out
}

// compareTypes compares the kernel's records by type with perf's dump.
func compareTypes(t *testing.T, dump []byte, got map[uint32]int) {
	t.Helper()
	names := map[string]uint32{
		"MMAP": TypeMmap, "MMAP2": TypeMmap2, "COMM": TypeComm, "EXIT": TypeExit, "FORK": TypeFork, "SAMPLE": TypeSample,
		"SWITCH": TypeSwitch, "SWITCH_CPU_WIDE": TypeSwitchCPUWide, "KSYMBOL": TypeKsymbol, "BPF_EVENT": TypeBPFEvent,
		"LOST": TypeLost, "LOST_SAMPLES": TypeLostSamples, "THROTTLE": TypeThrottle, "UNTHROTTLE": TypeUnthrottle,
	}
	want := map[uint32]int{}
	for _, m := range regexp.MustCompile(`(?m)^[-0-9].* \[0x[0-9a-f]+\]: PERF_RECORD_([A-Z0-9_]+)`).FindAllSubmatch(dump, -1) {
		if typ, ok := names[string(m[1])]; ok {
			want[typ]++
		}
	}
	for name, typ := range names {
		if got[typ] != want[typ] {
			t.Errorf("%d records of type %s, perf has %d", got[typ], name, want[typ])
		}
	}
}

// readPerfData reads the records of a perf.data file (tools/perf/Documentation/
// perf.data-file-format.txt): the header, its one attribute, the data section.
func readPerfData(t *testing.T, b []byte) (raws []Raw, f Format) {
	t.Helper()
	if !bytes.HasPrefix(b, []byte("PERFILE2")) {
		t.Fatalf("no perf.data: %q", b[:8])
	}
	u64 := func(off uint64) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	attr, dataOff, dataSize := u64(24), u64(40), u64(48)
	flags := u64(attr + 40)
	f = Format{SampleType: u64(attr + 24), ReadFormat: u64(attr + 32), SampleIDAll: flags>>18&1 == 1}
	for at := dataOff; at < dataOff+dataSize; {
		size := uint64(binary.NativeEndian.Uint16(b[at+6:]))
		if size < 8 {
			t.Fatalf("record of %d bytes at %d", size, at)
		}
		typ := binary.NativeEndian.Uint32(b[at:])
		if typ < 64 { // perf's own records begin there
			raws = append(raws, Raw{Type: typ, Misc: binary.NativeEndian.Uint16(b[at+4:]), Data: b[at+8 : at+size]})
		}
		at += size
	}
	return raws, f
}
