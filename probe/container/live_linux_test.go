package container

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestLive: groups of this machine, by id, and after they are gone.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root)
	mount := testenv.Cgroup2(t)
	top := fmt.Sprintf("/borescope_%d", os.Getpid())
	rel := path.Join(top, "pod"+uid, id1)
	var made []string
	for _, p := range []string{top, path.Dir(rel), rel} {
		if err := os.Mkdir(mount+p, 0o755); err != nil {
			t.Fatal(err)
		}
		made = append(made, mount+p)
		t.Cleanup(func() { os.Remove(mount + p) })
	}
	ids := map[string]uint64{}
	for _, dir := range made {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		ids[dir], _ = inode(info)
	}
	byHandle, byWalk, scanned := New(nil), New(nil), New(nil)
	for _, dir := range made {
		i, ok := byHandle.Resolve(ids[dir])
		if !ok || mount+i.Path != dir || i.CgroupID != ids[dir] {
			t.Errorf("%s is %+v", dir, i)
		}
	}
	found := ""
	err := byWalk.walk(func(id uint64, p string) bool {
		if id == ids[mount+rel] {
			found = p
		}
		return found == ""
	})
	if err != nil || found != rel {
		t.Errorf("walking finds %q, %v", found, err)
	}
	if err := scanned.Scan(); err != nil {
		t.Fatal(err)
	}
	for i := len(made) - 1; i >= 0; i-- {
		if err := os.Remove(made[i]); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]*Resolver{"resolved": byHandle, "scanned": scanned} {
		i, ok := r.Resolve(ids[mount+rel])
		if !ok || i.Container != id1 || i.PodUID != uid || i.Path != rel {
			t.Errorf("%s: after the end: %+v", name, i)
		}
	}
	if i, ok := New(nil).Resolve(ids[mount+rel]); ok {
		t.Errorf("a group that is gone and was never seen: %+v", i)
	}
	if root, ok := New(&Options{Dir: filepath.Join("/proc/self/root")}).Resolve(1); !ok || root.Path != "/" {
		t.Errorf("the root is %+v", root)
	}
}
