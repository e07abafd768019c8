package main

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){
		"fault": func() {
			const size = pages * 65536 // pages may be that large
			mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
			if err != nil {
				panic(err)
			}
			syscall.Madvise(mem, syscall.MADV_NOHUGEPAGE)
			for i := 0; i < size; i += 65536 {
				mem[i] = 1
			}
		},
		"spin": func() {
			for range 50_000_000 {
				rounds++
			}
		},
	})
}

// pages is how many pages of memory the child uses for the first time.
const pages = 2300

// rounds is in memory, so that the loop is not optimised away.
var rounds uint64

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "llcstat", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/faults") }

// row is a process on a CPU.
type row struct {
	PID, TID, CPU   int
	Reference, Miss int
	Hit             float64 `json:"hitp"`
}

// counted adds up the rows of a child's process, of which there is one by CPU.
func counted(t *testing.T, work string, flags ...string) (sum row) {
	child := tooltest.Start(t, work)
	for _, r := range tooltest.Objects[row](t, tooltest.Live(t, run, append(flags, "-json"), child.Work)) {
		if r.PID == child.PID {
			sum.Reference, sum.Miss = sum.Reference+r.Reference, sum.Miss+r.Miss
			if want := hits(uint64(r.Reference), uint64(r.Miss)); r.Hit-want > 0.01 || want-r.Hit > 0.01 {
				t.Errorf("%+v: hits are %v%%", r, want)
			}
		}
	}
	return sum
}

// Events that every kernel counts one by one, instead of those of a cache: the
// first use of so many pages is as many faults, all of them minor ones. The
// program's own come on top.
func TestEvents(t *testing.T) {
	sum := counted(t, "fault", "-c", "1", "-e", "page-faults,minor-faults")
	if sum.Reference < pages || sum.Reference > pages+200 || sum.Miss != sum.Reference {
		t.Errorf("counted %+v of %d", sum, pages)
	}
}

// A loop of 50 million rounds references the cache, whatever it finds there.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	if sum := counted(t, "spin", "-c", "100"); sum.Reference == 0 {
		t.Errorf("counted %+v", sum)
	}
}

// A PMU without events of a cache counts others: of a loop of 50 million rounds, a
// cycle or more each, at least 9 in 10 for it.
func TestLiveCycles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	const period = 100_000
	sum := counted(t, "spin", "-c", strconv.Itoa(period), "-e", "cycles:u,cycles:k")
	if sum.Reference%period != 0 || sum.Reference < 45_000_000 {
		t.Errorf("counted %+v", sum)
	}
}

func TestHits(t *testing.T) {
	for _, c := range [][3]float64{{0, 0, 0}, {0, 7, 0}, {200, 50, 75}, {10, 11, 0}} {
		if got := hits(uint64(c[0]), uint64(c[1])); got != c[2] {
			t.Errorf("%v of %v: %v", c[1], c[0], got)
		}
	}
}
