package system_test

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// TestEnumeratorNames: the type of an enum has the names of its values, wherever the enum is
// from. Before, it had only its own name.
func TestEnumeratorNames(t *testing.T) {
	level := &btf.Enum{Name: "level", Size: 4, Signed: true, Values: []btf.EnumValue{
		{Name: "LOW", Value: 1<<64 - 1}, {Name: "HIGH", Value: 7}, {Name: "HIGHEST", Value: 7},
	}}
	s := system.New(probe.NewEnv(&probe.EnvOptions{
		Root: probetest.Root(t), Arch: "amd64", Release: "6.12.0", BTF: probetest.Spec(t, []btf.Type{
			level, &btf.Struct{Name: "k", Size: 8, Members: []btf.Member{
				{Name: "level", Type: level}, {Name: "bits", Type: level, Offset: 32, BitfieldSize: 3},
			}},
		}),
	}), nil)
	for _, test := range []struct {
		name, script string
		value        uint64
		want         string
	}{
		{"own", `enum e { A = 1, B = 2 } begin { @ = B; }`, 2, "B"},
		{"ownUnknown", `enum e { A = 1 } begin { @ = A; }`, 3, ""},
		{"kernel", `begin { @ = HIGH; }`, 7, "HIGHEST"},
		{"negative", `begin { @ = HIGH; }`, 1<<64 - 1, "LOW"},
		{"negativeOfSize", `begin { @ = HIGH; }`, 1<<32 - 1, "LOW"},
		{"cast", `begin { @ = (enum level)7; }`, 7, "HIGHEST"},
		{"member", `kprobe:vfs_read { @ = ((struct k *)arg0).level; }`, 7, "HIGHEST"},
		{"bits", `kprobe:vfs_read { @ = ((struct k *)arg0).bits; }`, 7, ""},
		{"both", `kprobe:vfs_read { @ = HIGH; @ = ((struct k *)arg0).level; }`, 7, ""}, // of two sizes: a number
		{"variable", `begin { $a = LOW; @ = $a; }`, 7, "HIGHEST"},
		{"number", `begin { @ = 7; }`, 7, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := check(t, s, test.script)
			if err != nil {
				t.Fatal(syntax.ErrorText(err))
			}
			_, v := p.Map("@")
			if name, ok := v.Enumerator(test.value); name != test.want || ok != (test.want != "") {
				t.Errorf("%v: %d is %q, want %q", v, test.value, name, test.want)
			}
		})
	}
}
