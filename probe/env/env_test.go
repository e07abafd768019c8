package env

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/rawbtf"
)

// TestTracefsElsewhere: other mount points are found by /proc/self/mounts.
func TestTracefsElsewhere(t *testing.T) {
	root := fstest.MapFS{
		"proc/self/mounts":                        {Data: []byte("none /mnt/tr tracefs rw 0 0\n")},
		"mnt/tr/events/sched/sched_switch/format": {Data: []byte("name: sched_switch\nID: 310\n")},
	}
	env := New(&Options{Root: root, Arch: "amd64", Release: "6.1.0"})
	if f, err := env.Tracepoint("sched", "sched_switch"); err != nil || f.ID != 310 {
		t.Errorf("%v, %v", f, err)
	}
	_, err := New(&Options{Root: fstest.MapFS{}}).Tracepoint("a", "b")
	var no *feature.UnsupportedError
	if !errors.As(err, &no) || !strings.Contains(err.Error(), "mount -t tracefs") || strings.Contains(err.Error(), "file does not exist") {
		t.Errorf("no tracefs: %v", err)
	}
}

// TestMinimalBTF: what is left of a kernel's types has the offsets that it had,
// finds members inside anonymous ones, and is read from a tree like the whole.
func TestMinimalBTF(t *testing.T) {
	i := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	task := &btf.Struct{Name: "task", Size: 64}
	task.Members = []btf.Member{
		{Name: "unused", Type: &btf.Struct{Name: "huge", Size: 8}},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "deep", Type: i}, {Name: "other", Type: i}}}, Offset: 64},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "nothing", Type: i}}}, Offset: 128},
		{Name: "parent", Type: &btf.Pointer{Target: &btf.Const{Type: task}}, Offset: 192},
		{Name: "bits", Type: i, Offset: 256 + 5, BitfieldSize: 3},
		{Name: "list", Type: &btf.Array{Index: i, Type: i, Nelems: 4}, Offset: 320},
	}
	fn := &btf.Func{Name: "wake", Linkage: btf.StaticFunc, Type: &btf.FuncProto{
		Return: i, Params: []btf.FuncParam{{Name: "t", Type: &btf.Pointer{Target: task}}},
	}}
	b, err := btf.NewBuilder([]btf.Type{fn, &btf.Enum{Name: "state", Size: 4, Values: []btf.EnumValue{{Name: "ON", Value: 3}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	host := fstest.MapFS{
		"sys/kernel/btf/vmlinux": {Data: all}, "etc/os-release": {Data: []byte("ID=debian\nVERSION_ID=12\n")},
	}
	need := &rawbtf.Needs{Funcs: []string{"wake"}, Types: []string{"state", "none"}, Members: []string{"deep", "parent", "bits", "list"}}
	raw, path, err := New(&Options{Root: host, Arch: "amd64", Release: "6.1.0"}).CaptureBTF(need)
	if err != nil || path != "debian/12/x86_64/6.1.0.btf" {
		t.Fatalf("%q, %v", path, err)
	}
	spec, err := New(&Options{
		Root: fstest.MapFS{}, Arch: "amd64", Release: "6.1.0", BTFDir: fstest.MapFS{path: {Data: raw}},
	}).BTF()
	if err != nil {
		t.Fatal(err)
	}
	var got *btf.Func
	if err := spec.TypeByName("wake", &got); err != nil {
		t.Fatal(err)
	}
	st := got.Type.(*btf.FuncProto).Params[0].Type.(*btf.Pointer).Target.(*btf.Struct)
	if st.Size != 64 || len(st.Members) != 4 {
		t.Fatalf("%+v", st)
	}
	for n, want := range []btf.Member{{Name: "", Offset: 64}, {Name: "parent", Offset: 192}, {Name: "bits", Offset: 261, BitfieldSize: 3}, {Name: "list", Offset: 320}} {
		if m := st.Members[n]; m.Name != want.Name || m.Offset != want.Offset || m.BitfieldSize != want.BitfieldSize {
			t.Errorf("member %d is %+v, want %+v", n, m, want)
		}
	}
	if u := st.Members[0].Type.(*btf.Union); len(u.Members) != 1 || u.Members[0].Name != "deep" {
		t.Errorf("anonymous member: %+v", u)
	}
	if _, err := spec.AnyTypeByName("huge"); err == nil {
		t.Error("what no member needs is still there")
	}
	var e *btf.Enum
	if err := spec.TypeByName("state", &e); err != nil || len(e.Values) != 1 || e.Values[0].Value != 3 {
		t.Errorf("%v, %v", e, err)
	}
	if again, err := MinimalBTF(raw, need); err != nil || !bytes.Equal(again, raw) {
		t.Errorf("reducing it again changes it: %v", err)
	}
}

// TestFeatureSet: what is recorded and kept as JSON answers as the machine did.
func TestFeatureSet(t *testing.T) {
	b, err := json.Marshal(RecordFeatures())
	if err != nil {
		t.Fatal(err)
	}
	var set feature.Set
	if err := json.Unmarshal(b, &set); err != nil {
		t.Fatal(err)
	}
	if len(set) != len(feature.All()) || len(set) < 30 {
		t.Errorf("%d features recorded of %d", len(set), len(feature.All()))
	}
	live, recorded := New(nil), New(&Options{Root: fstest.MapFS{}, Features: set})
	for _, f := range feature.All() {
		if g, err := ParseFeature(f.String()); g != f || err != nil {
			t.Errorf("%s: ParseFeature gives %s, %v", f, g, err)
		}
		want, got := live.Supports(f), recorded.Supports(f)
		if (want == nil) != (got == nil) || errors.Is(want, errors.ErrUnsupported) != errors.Is(got, errors.ErrUnsupported) {
			t.Errorf("%s: recorded %v, here %v", f, got, want)
		}
	}
}

// TestFileInTar: as archive/tar writes them, and cut off anywhere.
func TestFileInTar(t *testing.T) {
	spec := bytes.Repeat([]byte("btf"), 1000)
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range []struct {
			name string
			data []byte
		}{{"./", nil}, {"readme", []byte("no BTF")}, {"empty", nil}, {"./5.4.0-1-generic.btf", spec}, {"other.btf", nil}} {
			h := &tar.Header{Name: f.name, Size: int64(len(f.data)), Mode: 0o644, Format: format}
			if format == tar.FormatPAX {
				h.PAXRecords = map[string]string{"BORESCOPE.x": "y"}
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(f.data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, ok := fileInTar(b.Bytes(), ".btf"); !ok || !bytes.Equal(got, spec) {
			t.Errorf("%v: %d bytes, %v", format, len(got), ok)
		}
		if got, ok := fileInTar(b.Bytes(), ".none"); ok {
			t.Errorf("%v: %d bytes of a file that is not there", format, len(got))
		}
		for n := range b.Len() {
			if got, ok := fileInTar(b.Bytes()[:n], ".btf"); ok && !bytes.Equal(got, spec) {
				t.Fatalf("%v, cut off at %d: %d bytes", format, n, len(got))
			}
		}
	}
}

// TestReadTracepoints: the formats of many tracepoints are read with one look for tracefs, and
// those that do not exist still have their own errors.
func TestReadTracepoints(t *testing.T) {
	mounts := &fstest.MapFile{Data: []byte("none /mnt/tr tracefs rw 0 0\n")}
	root := fstest.MapFS{"proc/self/mounts": mounts}
	for _, name := range []string{"one", "two", "three"} {
		root["mnt/tr/events/sched/"+name+"/format"] = &fstest.MapFile{Data: []byte("name: " + name + "\nID: 7\n")}
	}
	env := New(&Options{Root: root, Arch: "amd64", Release: "6.1.0"})
	env.ReadTracepoints(maps.All(map[string]string{"sched": "one", "nosuch": "one", "../x": "y"}))
	env.ReadTracepoints(maps.All(map[string]string{"sched": "two"}))
	mounts.Data = nil // nothing finds tracefs any more
	for name, want := range map[string]string{"one": "", "two": "", "three": "not mounted"} {
		f, err := env.Tracepoint("sched", name)
		if want == "" && (err != nil || f.Name != name || f.Group != "sched") || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if _, err := env.Tracepoint("nosuch", "one"); err == nil {
		t.Error("a tracepoint that does not exist has a format")
	}
}

// TestTypeNames: the names are those of the types that the caller gave or, if there are none, of
// the kernel's own, which are not decoded for it.
func TestTypeNames(t *testing.T) {
	names := func(e *Env) (list []string) {
		if err := EachTypeName[*btf.Typedef](e, func(name []byte) { list = append(list, string(name)) }); err != nil {
			t.Error(err)
		}
		return list
	}
	i := &btf.Int{Name: "int", Size: 4}
	b, err := btf.NewBuilder([]btf.Type{&btf.Typedef{Name: "own", Type: i}, &btf.Struct{Name: "other", Size: 4}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := fstest.MapFS{"sys/kernel/btf/vmlinux": &fstest.MapFile{Data: raw}}
	e := New(&Options{Root: root})
	if got := names(e); !slices.Equal(got, []string{"own"}) || e.KnownBTF() != nil {
		t.Errorf("names are %q, types %v", got, e.KnownBTF())
	}
	b, err = btf.NewBuilder([]btf.Type{&btf.Typedef{Name: "given", Type: i}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = b.Marshal(nil, nil); err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(New(&Options{Root: root, BTF: spec})); !slices.Equal(got, []string{"given"}) {
		t.Errorf("names are %q, not those of the given types", got)
	}
}
