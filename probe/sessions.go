package probe

import (
	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/load"
)

// Attach types that cilium/ebpf has no names for (its pull requests 2078, for
// the multi ones, and 2108): what Program.AttachType may be besides, and what
// Options.AttachType says of a program that was loaded elsewhere.
const (
	// AttachUprobeSession is of a program that sees entry and return of user
	// functions (BPF_TRACE_UPROBE_SESSION, 6.13).
	AttachUprobeSession = ebpf.AttachType(57)
	// AttachFsession is of a tracing program that sees entry and return of a
	// kernel function (BPF_TRACE_FSESSION, 7.0). LoadCollection loads it.
	AttachFsession = load.Fsession
	// AttachFentryMulti is of a tracing program for the entries of many kernel
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
// what cilium/ebpf cannot: tracing programs of the type AttachFsession. To be
// dropped for cilium/ebpf#2108. What is refused because the process
// lacks something (capabilities, file descriptors, freedom from seccomp) is an
// error that says so, and matches the error number alone. The caller closes the
// collection.
func LoadCollection(spec *ebpf.CollectionSpec, o ebpf.CollectionOptions) (*ebpf.Collection, error) {
	return load.Collection(spec, o)
}

// attachTypeName is the attach type in words, also where cilium has none.
func attachTypeName(t ebpf.AttachType) string {
	if s := attachTypeNames[t]; s != "" {
		return s
	}
	return t.String()
}

// isSession tells the types of programs that see entries and returns.
func isSession(t ebpf.AttachType) bool {
	switch t {
	case ebpf.AttachTraceKprobeSession, AttachUprobeSession, AttachFsession, AttachFsessionMulti:
		return true
	}
	return false
}

// isTracingMulti tells the types of tracing programs that are bound to no function.
func isTracingMulti(t ebpf.AttachType) bool {
	return t >= AttachFentryMulti && t <= AttachFsessionMulti
}
