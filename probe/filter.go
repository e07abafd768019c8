package probe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/internal/cgroups"
)

// Filter says for which tasks probes of any kind fire, by the task that is current
// when the event happens. All fields that are set must match. Each program checks it
// first, before it does any other work.
type Filter struct {
	// PIDs are processes (thread group ids); nil is all. Programs that package action
	// loads compare numbers of the pid namespace of the loading process; others compare
	// numbers of the initial one.
	PIDs []int
	// Cgroups are paths of version 2 control groups, below its mount; tasks in them and
	// below them match. nil is all.
	Cgroups []string
	// PIDNamespaceOf and MountNamespaceOf are processes; tasks must be in the namespaces
	// of these processes, as all of a container's tasks are. 0 is all. Of nested process
	// namespaces the innermost one of a task is compared.
	PIDNamespaceOf   int
	MountNamespaceOf int
}

// TaskFilter is a Filter as a plan holds it: the values that programs compare with.
type TaskFilter struct {
	// PIDs are processes and Cgroups control groups; a task must be in one of each list
	// that is not empty.
	PIDs    []uint32 `json:"pids,omitempty"`
	Cgroups []Cgroup `json:"cgroups,omitempty"`
	// PIDNamespace and MountNamespace are the inodes of namespaces, 0 for any; PIDDevice
	// is the device that the process namespace's inode is on.
	PIDNamespace   uint64 `json:"pid_namespace,omitempty"`
	PIDDevice      uint64 `json:"pid_device,omitempty"`
	MountNamespace uint32 `json:"mount_namespace,omitempty"`
	// Offsets are those of task_struct.nsproxy, nsproxy.mnt_ns and mnt_namespace's number
	// in this kernel; for MountNamespace.
	Offsets [3]uint32 `json:"offsets,omitzero"`
	// CgroupOffsets are set where the kernel's tracing programs can't ask for a task's
	// control groups (before 5.15): the offsets of task_struct.cgroups, css_set.dfl_cgrp,
	// cgroup.level and cgroup.ancestor_ids.
	CgroupOffsets [4]uint32 `json:"cgroup_offsets,omitzero"`
}

// Cgroup is a control group of version 2. ID is the inode of its directory, Level its
// depth (0 for the root, -1 if the mount does not show it), Path the path that it had.
type Cgroup = cgroups.Group

// String returns the filter in words: "pids 12, cgroups /a (77)".
func (f *TaskFilter) String() string {
	var parts []string
	if len(f.PIDs) > 0 {
		parts = append(parts, "pids "+strings.Trim(fmt.Sprint(f.PIDs), "[]"))
	}
	for _, c := range f.Cgroups {
		parts = append(parts, fmt.Sprintf("cgroup %s (%d)", c.Path, c.ID))
	}
	if f.PIDNamespace != 0 {
		parts = append(parts, fmt.Sprintf("pid namespace %d", f.PIDNamespace))
	}
	if f.MountNamespace != 0 {
		parts = append(parts, fmt.Sprintf("mount namespace %d", f.MountNamespace))
	}
	return strings.Join(parts, ", ")
}

// ApplyFilter puts the plan's filter (Options.Filter) in front of the plan's programs in
// spec, before they are loaded. bpf.Compile does so itself; ApplyFilter is for programs
// from elsewhere. Programs that run on behalf of no task stay as they are: begin and end,
// iterators, socket filters. A filter by mount namespace needs programs with a
// GPL-compatible licence, and so does one by control group before Linux 5.15. Without a
// filter ApplyFilter does nothing.
func (p *Plan) ApplyFilter(spec *ebpf.CollectionSpec) error {
	if p.Filter == nil {
		return nil
	}
	if spec == nil {
		return errors.New("filter: no collection")
	}
	for i := range p.Programs {
		g := &p.Programs[i]
		prog := spec.Programs[g.Name]
		if prog == nil || g.Method == MethodRun || g.Method == MethodIter || g.Method == MethodSocket {
			continue
		}
		if p.Filter.reads() && !strings.Contains(prog.License, "GPL") {
			return fmt.Errorf("filter %s: namespaces and groups are read by a helper for GPL-compatible programs, this one's licence is %q", g.Place(), prog.License)
		}
		ins, err := kernel.Filter(prog.Instructions, p.Filter.kernel(), kernel.Idle(g.Type))
		if err != nil {
			return fmt.Errorf("filter %s: %w", g.Place(), err)
		}
		prog.Instructions = ins
	}
	return nil
}

// reads reports whether the filter reads kernel memory.
func (f *TaskFilter) reads() bool {
	return f.MountNamespace != 0 || f.CgroupOffsets != [4]uint32{}
}

func (f *TaskFilter) kernel() *kernel.TaskFilter {
	out := &kernel.TaskFilter{Tgids: f.PIDs, MountNamespace: f.MountNamespace, Offsets: f.Offsets}
	for _, c := range f.Cgroups {
		out.Cgroups = append(out.Cgroups, kernel.CgroupAt{ID: c.ID, Level: c.Level})
	}
	if f.CgroupOffsets != [4]uint32{} {
		out.CgroupOffsets = &f.CgroupOffsets
	}
	if f.PIDNamespace != 0 {
		out.PIDNamespace = &[2]uint64{f.PIDDevice, f.PIDNamespace}
	}
	return out
}

// maxFilter bounds the values of each kind: each is a comparison for each event.
const maxFilter = 256

// filter resolves the filter, if there is one.
func (r *resolver) filter() error {
	f := r.o.Filter
	if f == nil {
		return nil
	}
	if len(f.PIDs) > maxFilter || len(f.Cgroups) > maxFilter {
		return fmt.Errorf("filter: %d processes and %d cgroups: the limit is %d of each", len(f.PIDs),
			len(f.Cgroups), maxFilter)
	}
	out := &TaskFilter{}
	for _, pid := range f.PIDs {
		if pid <= 0 || pid > 1<<22 { // PID_MAX_LIMIT
			return fmt.Errorf("filter: %d is not a process id", pid)
		}
		out.PIDs = append(out.PIDs, uint32(pid))
	}
	for _, name := range f.Cgroups {
		c, err := cgroups.Find(r.env, name)
		if err != nil {
			return fmt.Errorf("filter: %w", err)
		}
		out.Cgroups = append(out.Cgroups, c)
	}
	// bpf_get_current_ancestor_cgroup_id: commit 95b861a7935b, 5.15.
	if v, ok := feature.ParseVersion(r.env.Release()); ok && len(f.Cgroups) > 0 &&
		v.Before(feature.Version{5, 15}) {
		offsets, err := memberOffsets(r.env, "task_struct.cgroups", "css_set.dfl_cgrp", "cgroup.level",
			"cgroup.ancestor_ids")
		if err != nil {
			return fmt.Errorf("filter: cgroup: %w", err)
		}
		out.CgroupOffsets = [4]uint32(offsets)
	}
	if pid := f.PIDNamespaceOf; pid != 0 {
		id, err := cgroups.IDOf(r.env, fmt.Sprintf("proc/%d/ns/pid", pid))
		if err != nil {
			return fmt.Errorf("filter: process namespace of %d: %w", pid, err)
		}
		out.PIDDevice, out.PIDNamespace = id.Device, id.Inode
	}
	if pid := f.MountNamespaceOf; pid != 0 {
		id, err := cgroups.IDOf(r.env, fmt.Sprintf("proc/%d/ns/mnt", pid))
		if err != nil {
			return fmt.Errorf("filter: mount namespace of %d: %w", pid, err)
		}
		out.MountNamespace = uint32(id.Inode)
		offsets, err := memberOffsets(r.env, "task_struct.nsproxy", "nsproxy.mnt_ns",
			"mnt_namespace.ns.inum")
		if err != nil {
			return fmt.Errorf("filter: mount namespace: %w", err)
		}
		out.Offsets = [3]uint32(offsets)
	}
	r.plan.Filter = out
	return nil
}

// memberOffsets returns the offsets of members of this kernel's structs.
func memberOffsets(e *Env, paths ...string) ([]uint32, error) {
	spec, err := e.BTF()
	if err != nil {
		return nil, err
	}
	return kernel.MemberOffsets(spec, paths...)
}
