package perfevent

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/pmc"
)

// Event is a perf event to be opened.
type Event struct {
	Attr     perfring.Attr
	Path     string // goes into config1: kprobe_func, uprobe_path
	PID, CPU int
	// What and Cgroup are the event and the cgroup of one that samples.
	What   pmc.Event
	Cgroup *os.File
	// Lower is set where a lower precision will do if the one asked for is
	// refused (the modifier P).
	Lower bool
	// Explain says why the kernel refused it; nil of one that samples.
	Explain func(error) error
}

// Refused says what perf_event_open means for sampling, which package pmc knows.
func (ev *Event) Refused(err error) error {
	at := pmc.Place{PID: ev.PID, CPU: ev.CPU}
	if ev.Cgroup != nil {
		at.PID, at.Cgroup = 0, ev.Cgroup
	}
	return pmc.Explain(err, ev.What, at, ev.Attr)
}

// PMU is what sysfs says of a dynamic PMU.
type PMU struct {
	Number uint32
	// Return is the bit of config that asks for the return of a function.
	Return uint
}

// ReadPMU reads the number of the kprobe or uprobe PMU and its return bit; f is what the
// kernel lacks that has none.
func ReadPMU(root fs.FS, name string, f feature.Feature) (PMU, error) {
	dir := "sys/bus/event_source/devices/" + name
	b, err := fs.ReadFile(root, dir+"/type")
	if err != nil {
		return PMU{}, feature.Explain(f, err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return PMU{}, fmt.Errorf("%s/type: %w", dir, err)
	}
	t := PMU{Number: uint32(n)}
	if b, err := fs.ReadFile(root, dir+"/format/retprobe"); err == nil {
		bit, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(b)), "config:"), 10, 6)
		if err != nil {
			return t, fmt.Errorf("%s/format/retprobe: %w", dir, err)
		}
		t.Return = uint(bit)
	}
	return t, nil
}
