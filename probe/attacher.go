package probe

import (
	"context"
	"fmt"
	"os"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// attacher is the state of one Plan.Attach.
type attacher struct {
	env  *Env
	o    *AttachOptions
	link *Link
	ctx  context.Context
	// start holds the perf events that were opened disabled.
	start []int
	// drop holds the events whose descriptor is no longer needed once they are
	// started, because a bpf_link keeps them.
	drop []int
	// name is the program that is being attached.
	name string
	// cpus are the online CPUs, nil until they are needed.
	cpus []int
	// left is why the last site was left out.
	left error
	// ids identify the files that the plan was made from, open is the one opened last.
	ids  userfile.FileIDs
	open *os.File
	// pmus are the dynamic PMUs.
	pmus map[string]perfevent.PMU
}

// ended returns the context's error if it has ended before a program is attached at the sites.
func (a *attacher) ended(sites []Site) error {
	if err := a.ctx.Err(); err != nil {
		return fmt.Errorf("attach %s: %w", placeOf(sites), err)
	}
	return nil
}

// anyCPU opens the event on the first online CPU: such events fire on every CPU, but
// perf_event_open needs one named, and CPU 0 may be offline.
func (a *attacher) anyCPU(ev *perfevent.Event) (*perfevent.Event, error) {
	if a.cpus == nil {
		list, err := a.env.OnlineCPUs()
		if err != nil {
			return nil, err
		}
		a.cpus = list
	}
	ev.PID, ev.CPU = -1, a.cpus[0]
	return ev, nil
}

// pmu returns the kprobe or uprobe PMU, read once.
func (a *attacher) pmu(name string, f feature.Feature) (perfevent.PMU, error) {
	if t, ok := a.pmus[name]; ok {
		return t, nil
	}
	t, err := perfevent.ReadPMU(a.env.Root(), name, f)
	if err != nil {
		return t, err
	}
	if a.pmus == nil {
		a.pmus = map[string]perfevent.PMU{}
	}
	a.pmus[name] = t
	return t, nil
}
