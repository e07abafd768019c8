package system_test

import (
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// TestTypeOfModule: probes in a module have its types, with and without its name. They were not known.
func TestTypeOfModule(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Guest, testenv.File("/sys/kernel/btf/overlay"))
	s := system.New(nil, nil)
	for _, point := range []string{"kprobe:overlay:ovl_init_fs_context", "kprobe:ovl_init_fs_context", "kretprobe:overlay:ovl_*"} {
		p, err := check(t, s, point+" { @ = ((struct ovl_fs *)5).numlayer; }")
		if err != nil {
			t.Errorf("%s: %s", point, syntax.ErrorText(err))
			continue
		}
		if _, v := p.Map("@"); v.String() != "uint32" {
			t.Errorf("%s: @ is %v, want uint32", point, v)
		}
	}
	if _, err := check(t, s, "kprobe:vfs_read { @ = ((struct ovl_fs *)5).numlayer; }"); err == nil {
		t.Error("a function of the kernel has the types of a module")
	}
}
