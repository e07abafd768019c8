package probe

import (
	"context"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/load"
)

// Attach types that cilium/ebpf has no names for (its pull requests 2078, for the multi
// ones, and 2108). ProgramPlan.AttachType may be one of them, and Options.AttachType takes them
// for a program that was loaded elsewhere.
const (
	// AttachUprobeSession is the type of a program that sees entry and return of user
	// functions (BPF_TRACE_UPROBE_SESSION, 6.13).
	AttachUprobeSession = ebpf.AttachType(57)
	// AttachFsession is the type of a tracing program that sees entry and return of a
	// kernel function (BPF_TRACE_FSESSION, 7.0). LoadCollection loads it.
	AttachFsession = load.Fsession
	// AttachFentryMulti is the type of a tracing program for the entries of many kernel
	// functions, loaded for none of them (BPF_TRACE_FENTRY_MULTI, 7.2).
	AttachFentryMulti = ebpf.AttachType(59)
	// AttachFexitMulti is the same for returns (BPF_TRACE_FEXIT_MULTI, 7.2).
	AttachFexitMulti = ebpf.AttachType(60)
	// AttachFsessionMulti is the same for both (BPF_TRACE_FSESSION_MULTI, 7.2).
	AttachFsessionMulti = ebpf.AttachType(61)
)

var attachTypeNames = map[ebpf.AttachType]string{
	AttachUprobeSession: "TraceUprobeSession", AttachFsession: "TraceFsession",
	AttachFentryMulti: "TraceFentryMulti", AttachFexitMulti: "TraceFexitMulti",
	AttachFsessionMulti: "TraceFsessionMulti",
}

// LoadCollection loads a collection as ebpf.NewCollectionWithOptions does, and also
// tracing programs of the type AttachFsession, which cilium/ebpf cannot load so far
// (cilium/ebpf#2108). If the kernel refuses something because of the process
// (capabilities, file descriptors, seccomp), the error says so, and matches only the
// error number. The caller closes the collection.
func LoadCollection(spec *ebpf.CollectionSpec, o ebpf.CollectionOptions) (*ebpf.Collection, error) {
	return load.Collection(context.Background(), spec, o)
}

// attachTypeName returns the attach type in words, also for those cilium/ebpf has no name for.
func attachTypeName(t ebpf.AttachType) string {
	if s := attachTypeNames[t]; s != "" {
		return s
	}
	return t.String()
}

// isSession reports whether programs of the type see entries and returns.
func isSession(t ebpf.AttachType) bool {
	switch t {
	case ebpf.AttachTraceKprobeSession, AttachUprobeSession, AttachFsession, AttachFsessionMulti:
		return true
	}
	return false
}

// isTracingMulti reports whether tracing programs of the type are bound to no function.
func isTracingMulti(t ebpf.AttachType) bool {
	return t >= AttachFentryMulti && t <= AttachFsessionMulti
}
