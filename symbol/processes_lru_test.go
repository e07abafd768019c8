package symbol

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/procfs"
)

// TestFilesUsedLongestAgo: what is closed for another file is the one used longest ago. It was
// looked for among all files, each time: with 50,000 of them that took a minute.
func TestFilesUsedLongestAgo(t *testing.T) {
	root := fstest.MapFS{}
	for i := range 5 {
		root[fmt.Sprint("lib", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	ps := NewProcesses(&Options{Root: root, MaxFiles: 3})
	defer ps.Close()
	p := &Process{ps: ps, pid: 1, user: procfs.Anybody}
	ps.mu.Lock()
	var images []*image
	hold := func(i int) {
		m := &procfs.Mapping{Path: fmt.Sprint("/lib", i)}
		img := p.image(m)
		if len(images) == i {
			images = append(images, img)
		}
		p.hold(img, m)
	}
	open := func() (list []int) {
		for i, img := range images {
			if img.isHeld() {
				list = append(list, i)
			}
		}
		return list
	}
	for i := range 3 {
		hold(i)
	}
	ps.use(images[0])
	hold(3)
	if got := fmt.Sprint(open()); got != "[0 2 3]" {
		t.Errorf("open are %s", got)
	}
	ps.use(images[2])
	hold(4)
	hold(1)
	if got := fmt.Sprint(open()); got != "[1 2 4]" {
		t.Errorf("open are %s", got)
	}
	if n := ps.held.Len(); n != 3 {
		t.Errorf("%d are listed", n)
	}
	ps.mu.Unlock()
}
