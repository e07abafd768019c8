package uapi_test

import (
	"runtime"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/uapi"
)

// TestKernelEnums compares the names that this machine's kernel enumerates: of two
// meanings scripts have the kernel's, and the name is not for this table (SOCK_DESTROY
// was, of sock_diag's messages).
func TestKernelEnums(t *testing.T) {
	const file = "/sys/kernel/btf/vmlinux"
	testenv.Need(t, testenv.File(file))
	spec, err := btf.LoadSpec(file)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		enum, ok := typ.(*btf.Enum)
		if !ok {
			continue
		}
		for _, v := range enum.Values {
			want, ok := uapi.Lookup(runtime.GOARCH, v.Name)
			if !ok {
				continue
			}
			got := int64(v.Value)
			if enum.Size == 4 && !enum.Signed {
				got = int64(uint32(v.Value))
			}
			if compared++; got != want {
				t.Errorf("%s is %d, the kernel's enum %s says %d", v.Name, want, enum.Name, got)
			}
		}
	}
	t.Logf("%d names", compared)
	if compared < 40 {
		t.Errorf("%d names were compared", compared)
	}
}
