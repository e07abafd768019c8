package probe

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// TestTrampolinePlans: what fentry and fexit become, by what is asked for and by
// what the kernel has.
func TestTrampolinePlans(t *testing.T) {
	two := "fentry:vfs_read,fentry:vfs_write"
	for _, c := range []struct {
		targets  string
		o        Options
		without  []feature.Feature
		programs int
		at       ebpf.AttachType
		method   Method
		why      string
	}{
		{two, Options{}, nil, 2, ebpf.AttachTraceFEntry, MethodTracing, ""},
		{two, Options{TracingMulti: true}, nil, 1, AttachFentryMulti, MethodTracingMulti, ""},
		{two, Options{TracingMulti: true}, []feature.Feature{feature.TracingMulti}, 2, ebpf.AttachTraceFEntry, MethodTracing, "tracing-multi: CONFIG_EXAMPLE"},
		{two, Options{EntryReturn: true}, nil, 2, AttachFsession, MethodTracing, ""},
		{two, Options{EntryReturn: true}, []feature.Feature{feature.Fsession}, 2, ebpf.AttachTraceFEntry, MethodTracing, "fsession: CONFIG_EXAMPLE"},
		{two, Options{EntryReturn: true, TracingMulti: true}, nil, 1, AttachFsessionMulti, MethodTracingMulti, ""},
		{two, Options{EntryReturn: true, TracingMulti: true}, []feature.Feature{feature.TracingMulti}, 2, AttachFsession, MethodTracing, "tracing-multi"},
		{"fexit:vfs_read,fexit:vfs_write", Options{TracingMulti: true}, nil, 1, AttachFexitMulti, MethodTracingMulti, ""},
		{"fentry:vfs_*", Options{TracingMulti: true}, nil, 1, AttachFentryMulti, MethodTracingMulti, ""},
		{"fentry:vfs_read", Options{AttachType: AttachFentryMulti, NoTypes: true}, nil, 1, AttachFentryMulti, MethodTracingMulti, ""},
	} {
		p, err := Resolve(probetest.Env(t, c.without...), []Target{mustParse(t, c.targets)}, &c.o)
		if err != nil {
			t.Errorf("%s %+v: %v", c.targets, c.o, err)
			continue
		}
		g := p.Programs[0]
		if len(p.Programs) != c.programs || g.AttachType != c.at || g.Method != c.method || !strings.HasPrefix(g.FallbackReason, c.why) || (g.AttachTo == "") != (c.method == MethodTracingMulti) {
			t.Errorf("%s %+v:\n%s", c.targets, c.o, p)
		}
		if (g.Ret != nil) != (c.at != ebpf.AttachTraceFEntry && c.at != AttachFentryMulti) {
			t.Errorf("%s %+v: a value of\n%s", c.targets, c.o, p)
		}
	}
	for _, at := range []ebpf.AttachType{AttachFentryMulti, AttachFsession} {
		env := probetest.Env(t, feature.TracingMulti, feature.Fsession)
		_, err := Resolve(env, []Target{Fentry{Symbol: "vfs_read"}}, &Options{AttachType: at, EntryReturn: isSession(at)})
		if !isUnsupportedErr(err) {
			t.Errorf("%s: %v, want that it is not supported", attachTypeName(at), err)
		}
	}
}

// TestTracingMultiArgs: arguments of all that share the program, by helpers.
func TestTracingMultiArgs(t *testing.T) {
	p, err := Resolve(probetest.Env(t), []Target{mustParse(t, "fexit:vfs_read,fexit:vfs_write")}, &Options{TracingMulti: true})
	if err != nil {
		t.Fatal(err)
	}
	g := p.Programs[0]
	if len(g.Args) < 3 || g.Args[2].Loc != (Location{Kind: LocationFuncArg, Offset: 2, Size: 8}) || g.Ret.Loc.Kind != LocationFuncRet {
		t.Errorf("\n%s", p)
	}
	b, err := p.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	q := &Plan{BTF: p.BTF}
	if err := q.UnmarshalJSON(b); err != nil || p.String() != q.String() {
		t.Errorf("recorded and read: %v\n%s\n%s", err, p, q)
	}
}
