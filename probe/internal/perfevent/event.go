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

// Event is a perf event to open.
type Event struct {
	Attr     perfring.Attr
	Path     string // config1 points to it: kprobe_func, uprobe_path
	PID, CPU int
	// What and Cgroup are the event and the cgroup of a sampling event.
	What   pmc.Event
	Cgroup *os.File
	// Lower allows a lower precision if the requested one is refused (the modifier P).
	Lower bool
	// Explain explains why the kernel refused the event; it is nil for sampling events.
	Explain func(error) error
}

// Refused explains an error of perf_event_open for a sampling event, with package pmc.
func (ev *Event) Refused(err error) error {
	at := pmc.Place{PID: ev.PID, CPU: ev.CPU}
	if ev.Cgroup != nil {
		at.PID, at.Cgroup = 0, ev.Cgroup
	}
	return pmc.Explain(err, ev.What, at, ev.Attr)
}

// PMU describes a dynamic PMU, as sysfs does.
type PMU struct {
	Number uint32
	// Return is the bit of config that selects the return of a function.
	Return uint
}

// ReadPMU reads the number of the kprobe or uprobe PMU and its return bit. f is the feature
// that a kernel without the PMU lacks.
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
