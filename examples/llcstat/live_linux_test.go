package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// row is a process on a CPU.
type row struct {
	PID, TID, CPU   int
	Reference, Miss int
	Hit             float64 `json:"hitp"`
}

// counted adds up the rows of a child's process, of which there is one by CPU.
func counted(t *testing.T, child *tooltest.Child, flags ...string) (sum row) {
	for _, r := range tooltest.Objects[row](t, tooltest.Live(t, run, append(flags, "-json", "600"), child.Work)) {
		if r.PID == child.PID {
			sum.Reference, sum.Miss = sum.Reference+r.Reference, sum.Miss+r.Miss
			if want := hits(int64(r.Reference), int64(r.Miss)); r.Hit-want > 0.01 || want-r.Hit > 0.01 {
				t.Errorf("%+v: hits are %v%%", r, want)
			}
		}
	}
	return sum
}

// faults is how many page faults a process has had: fields 10 and 12 of its stat,
// proc(5), of which the second's end in a bracket.
func faults(t *testing.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')'):]))
	minor, err := strconv.Atoi(fields[8])
	major, err2 := strconv.Atoi(fields[10])
	if err != nil || err2 != nil {
		t.Fatal(errors.Join(err, err2))
	}
	return minor + major
}

// Events that every kernel counts one by one, instead of those of a cache: the
// first use of so many pages is as many faults, all of them minor ones. The
// program's own come on top, as the kernel counts them for the process.
func TestEvents(t *testing.T) {
	child := tooltest.Start(t, "fault")
	before := faults(t, child.PID)
	sum := counted(t, child, "-c", "1", "-e", "page-faults,minor-faults")
	if most := faults(t, child.PID) - before; sum.Miss < pages || sum.Miss > sum.Reference || sum.Reference > most {
		t.Errorf("counted %+v of %d, or %d at most", sum, pages, most)
	}
}

// A loop of 50 million rounds references the cache, whatever it finds there.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	if sum := counted(t, tooltest.Start(t, "spin"), "-c", "100"); sum.Reference == 0 {
		t.Errorf("counted %+v", sum)
	}
}

// A PMU without events of a cache counts others: of a loop of 50 million rounds, a
// cycle or more each, at least 9 in 10 for it.
func TestLiveCycles(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	const period = 100_000
	sum := counted(t, tooltest.Start(t, "spin"), "-c", strconv.Itoa(period), "-e", "cycles:u,cycles:k")
	if sum.Reference%period != 0 || sum.Reference < 45_000_000 {
		t.Errorf("counted %+v", sum)
	}
}
