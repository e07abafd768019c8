package perfevent

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/pmc"
)

func TestReadPMU(t *testing.T) {
	const dir = "sys/bus/event_source/devices/kprobe"
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for want, root := range map[string]fstest.MapFS{
		"":                {dir + "/type": file("8\n"), dir + "/format/retprobe": file("config:3\n")},
		"/type: ":         {dir + "/type": file("x\n")},
		"retprobe: ":      {dir + "/type": file("8\n"), dir + "/format/retprobe": file("config:64\n")},
		"kprobe":          {},
		"/type: strconv.": {dir + "/type": file("4294967296\n")},
	} {
		p, err := ReadPMU(root, "kprobe", feature.Kprobe)
		switch {
		case want == "" && (err != nil || p != PMU{Number: 8, Return: 3}):
			t.Errorf("%+v, %v", p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestThreads: this process has some, and no other has number 0. Waiting for clone ends
// in time, whatever they do.
func TestThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tids, err := Threads(os.Getpid())
	if err != nil || !slices.Contains(tids, syscall.Gettid()) {
		t.Errorf("%v, %v", tids, err)
	}
	began := time.Now()
	WaitForClone(os.Getpid(), tids, began.Add(50*time.Millisecond))
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("waited %s", d)
	}
	if _, err := Threads(0); err == nil {
		t.Error("there is a process 0")
	}
}

// TestRefused: what samples is explained by what it counts.
func TestRefused(t *testing.T) {
	ev := &Event{PID: 1 << 22, CPU: -1, What: pmc.CPUClock(), Attr: pmc.CPUClock().Attr()}
	if err := ev.Refused(syscall.ESRCH); err == nil || err == syscall.ESRCH {
		t.Errorf("%v", err)
	}
}
