package rawbtf

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

func FuzzBTFFuncs(f *testing.F) {
	f.Add([]byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 12, 1, 0, 0, 0, 0, 'f', 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := New(b)
		if err != nil {
			return
		}
		for id, name := range r.Funcs {
			r.Traceable(id) // within the blob, whatever it says
			if len(name) > len(b) || int(id) >= len(r.At) {
				t.Errorf("type %d is %q", id, name)
			}
		}
	})
}

// FuzzMinimal: bytes of any kind give an error or BTF, and no panic.
func FuzzMinimal(f *testing.F) {
	i := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	b, err := btf.NewBuilder([]btf.Type{
		&btf.Func{Name: "from_tree", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: i, Params: []btf.FuncParam{{Name: "a", Type: i}}}},
		&btf.Struct{Name: "trace_event_raw_thing", Size: 8, Members: []btf.Member{
			{Name: "ent", Type: &btf.Struct{Name: "trace_entry", Size: 4, Members: []btf.Member{{Name: "type", Type: i}}}}, {Name: "count", Type: i, Offset: 32},
		}},
	}, nil)
	if err != nil {
		f.Fatal(err)
	}
	seed, err := b.Marshal(nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		need := &Needs{
			Funcs: []string{"from_tree"}, Types: []string{"trace_event_raw_thing", "int"},
			Vars: []string{"int"}, Members: []string{"ent", "count"},
		}
		for _, need.Whole = range []bool{false, true} {
			out, err := Minimal(raw, need)
			if err != nil {
				continue
			}
			if _, err := Minimal(out, &Needs{}); err != nil {
				t.Fatalf("the result is no BTF: %v", err)
			}
		}
	})
}
