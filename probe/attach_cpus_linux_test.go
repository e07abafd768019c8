package probe

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/probe/internal/perfevent"
)

// counted counts how often files are opened.
type counted struct {
	fs.FS
	n map[string]int
}

func (c counted) Open(name string) (fs.File, error) {
	c.n[name]++
	return c.FS.Open(name)
}

// TestOnlineCPUsOnce: attaching read the list of CPUs for each of its sites.
func TestOnlineCPUsOnce(t *testing.T) {
	const online = "sys/devices/system/cpu/online"
	root := counted{fstest.MapFS{online: {Data: []byte("2-3\n")}}, map[string]int{}}
	a := &attacher{env: NewEnv(&EnvOptions{Root: root})}
	for range 5 {
		ev, err := a.anyCPU(&perfevent.Event{})
		if err != nil || ev.CPU != 2 {
			t.Fatalf("%+v, %v", ev, err)
		}
	}
	if root.n[online] != 1 {
		t.Errorf("read %d times", root.n[online])
	}
}
