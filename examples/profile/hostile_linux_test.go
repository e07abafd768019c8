package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
)

// hostiles are programs that compute, and whose files ask whoever looks at them for
// gigabytes or minutes: the ends of some are holes.
func hostiles() (images [][]byte, holes []int64) {
	frames := func(data []byte, flags elf.SectionFlag) []byte {
		s := elfbuild.FrameSection(data)
		s.Flags |= flags
		return elfbuild.Program(s).Bytes()
	}
	table := func(s elfbuild.SymbolTable) []byte { return elfbuild.Program(s.Sections()...).Bytes() }
	head := elfbuild.Frames(elfbuild.ProgramText, 1)
	head = head[:len(head)-4]
	const n = 200_000
	const hole = 2 << 30
	images = [][]byte{
		frames(elfbuild.Compressed(head, 96<<20, head[len(head)-24:]...), elf.SHF_COMPRESSED),
		elfbuild.Program(elfbuild.SymbolTable{N: 1, Size: 64, Names: 4}.Compressed(64 << 20)...).Bytes(),
		elfbuild.Sparse(table(elfbuild.SymbolTable{N: 8, Names: 4}), 2, hole),
		frames(elfbuild.Frames(elfbuild.ProgramText, n), 0),
		frames(elfbuild.NestedCIEs(n/10, 2<<20), 0),
		table(elfbuild.SymbolTable{N: n, Size: 64, Names: 30000}),
		table(elfbuild.SymbolTable{N: n, Size: n, Shrink: 1, Names: 30000}),
		table(elfbuild.SymbolTable{N: n, Step: 1, Size: 2 * n, Shrink: 2, Names: 4}),
		table(elfbuild.SymbolTable{N: n, Step: 1 << 33, Size: 64, Names: 4}),
		elfbuild.ManyTables(2000, elfbuild.SymbolTable{N: 1000, Step: 16, Size: 16, Names: 8}),
	}
	holes = make([]int64, len(images))
	holes[2] = hole
	return images, holes
}

// startEach runs twenty programs of that name, each image in turn from a file of its
// own, nobody's, with a hole behind it, until the test ends.
func startEach(t testing.TB, name string, images [][]byte, holes []int64) {
	t.Helper()
	for i := range 20 {
		k := i % len(images)
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, images[k], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 65534, -1); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(images[k]))+holes[k]); err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Command(t, path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
}

// profileOf profiles the processes of a name for five seconds and returns how much
// memory that took at most, how much of a CPU, and what came out.
func profileOf(t testing.TB, name string) (kB int, cpu time.Duration, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := self(t, "-d", "5s", "-f", "-c", name)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			return kB, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), stdout.String()
		case <-time.After(5 * time.Millisecond):
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
			fmt.Sscan(rest, &kB)
		}
	}
}

// A profile of the whole machine took 1.4 GB and ten seconds more for one process of
// anybody's with such a file, and three times the CPU time for twenty within the bounds
// of a file. What else runs on the machine takes memory and time too, so the tool is
// told the name of these, and of honest ones to compare.
func TestHostileNeighbours(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Arch("amd64"))
	testenv.LimitMemory(t, 512<<20)
	if testenv.InGuest() {
		return // which has no room for the files
	}
	const mostMemory = 80 << 10 // kB
	// One file of a stranger's is read in any case, for its frames and for its names.
	oneFile := meter.Second() / 5
	images, holes := hostiles()
	memory, cpus := map[string]int{}, map[string]time.Duration{}
	for _, c := range []struct {
		name   string
		images [][]byte
		holes  []int64
	}{{"honest", [][]byte{elfbuild.Program().Bytes()}, []int64{0}}, {"hostile", images, holes}} {
		t.Run(c.name, func(t *testing.T) {
			startEach(t, c.name, c.images, c.holes)
			kB, cpu, out := profileOf(t, c.name)
			t.Logf("twenty of them: %d kB, %v of a CPU", kB, cpu)
			if !strings.Contains(out, c.name) {
				t.Errorf("none was seen:\n%s", out)
			}
			memory[c.name], cpus[c.name] = kB, cpu
		})
	}
	if meter.Raced() {
		return
	}
	if more := memory["hostile"] - memory["honest"]; more > mostMemory {
		t.Errorf("%d kB for the hostile processes, want up to %d", more, mostMemory)
	}
	if most := cpus["honest"]*6/5 + oneFile; cpus["hostile"] > most {
		t.Errorf("%v of a CPU beside the hostile processes, want up to %v", cpus["hostile"], most)
	}
}
