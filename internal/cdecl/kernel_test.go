package cdecl_test

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/internal/testenv"
)

const kernelBTF = "/sys/kernel/btf/vmlinux"

// TestKernel prints structs of this machine's kernel and reads them to the same layout.
func TestKernel(t *testing.T) {
	testenv.Need(t, testenv.File(kernelBTF))
	spec, err := btf.LoadSpec(kernelBTF)
	if err != nil {
		t.Fatal(err)
	}
	every := 10
	if !testing.Short() {
		every = 3
	}
	read, failed, n := 0, 0, 0
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		s, ok := typ.(*btf.Struct)
		if n++; !ok || s.Name == "" || n%every != 0 {
			continue
		}
		p := &printer{done: map[btf.Type]bool{}}
		if p.define(s); p.large {
			continue
		}
		d, err := cdecl.Parse(s.Name, []byte(p.String()), nil)
		if err != nil {
			// The printer knows no order for typedefs that need one another by pointers.
			t.Log(err)
			failed++
			continue
		}
		read++
		c := comparison{seen: map[[2]btf.Type]bool{}, namesOnly: true}
		if diff := c.differ(s, d.Type(cdecl.Struct, s.Name), s.Name, 0); diff != "" {
			t.Error(diff)
		}
	}
	t.Logf("%d structs are alike, %d could not be printed", read, failed)
	if read < 500 || failed*100 > read {
		t.Errorf("%d structs were read, %d not", read, failed)
	}
}

// TestResolvedAlignment: structs of the kernel by value are aligned as there. BTF does
// not say how: it shows in the structs that have them as members.
func TestResolvedAlignment(t *testing.T) {
	testenv.Need(t, testenv.File(kernelBTF))
	spec, err := btf.LoadSpec(kernelBTF)
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(kind cdecl.Kind, name string) (btf.Type, error) {
		var s *btf.Struct
		err := spec.TypeByName(name, &s)
		return s, err
	}
	for _, name := range []string{"list_head", "rb_node", "task_struct", "sk_buff", "file", "rcu_head", "ipv6hdr", "mm_struct"} {
		var s *btf.Struct
		if err := spec.TypeByName(name, &s); err != nil {
			t.Log(err)
			continue
		}
		d, err := cdecl.Parse("x.h", []byte("struct x { char a; struct "+name+" b; };"), &cdecl.Options{Resolve: resolve})
		if err != nil {
			t.Fatal(err)
		}
		x := d.Type(cdecl.Struct, "x").(*btf.Struct)
		align := x.Members[1].Offset.Bytes()
		t.Logf("%s: %d", name, align)
		if least := map[bool]uint32{true: 4, false: 8}[name == "ipv6hdr"]; align < least || x.Size != align+s.Size || s.Size%align != 0 {
			t.Errorf("%s of %d bytes is at %d of %d", name, s.Size, align, x.Size)
		}
	}
}
