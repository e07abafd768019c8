package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

// pack writes the initramfs of a run.
func pack(path string, o *Options, plan wire.Plan, init string, modules []kernel.Module) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	a := newArchive(w)
	// The kernel opens the console before init can mount devtmpfs.
	a.device("/dev/console", 5, 1)
	if err := a.copyFile("/init", init); err != nil {
		return err
	}
	for i, m := range modules {
		name := fmt.Sprintf("/modules/%02d-%s.ko", i, m.Name)
		a.file(name, 0o644, m.Image)
		plan.Modules = append(plan.Modules, name)
	}
	b, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	a.file(wire.PlanFile, 0o644, b)
	a.file("/etc/passwd", 0o644,
		[]byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"))
	a.file("/etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	a.file("/etc/hosts", 0o644, []byte("127.0.0.1 localhost\n"))
	for _, d := range []string{"/root", "/out", "/test", "/src", "/bin"} {
		a.dir(d)
	}
	if o.Kernel.Config != "" {
		if err := a.copyFile("/boot/config-"+o.Kernel.Release, o.Kernel.Config); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(o.Files))
	for name := range o.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := addTree(a, name, o.Files[name]); err != nil {
			return err
		}
	}
	if err := a.close(); err != nil {
		return err
	}
	return w.Flush()
}

// addTree adds a file, or a directory with all its contents.
func addTree(a *archive, name, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := name + strings.TrimPrefix(path, from)
		switch {
		case d.IsDir():
			a.dir(to)
			return nil
		case d.Type()&fs.ModeSymlink != 0 && path != from:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			a.symlink(to, target)
			return nil
		case d.Type().IsRegular() || path == from:
			return a.copyFile(to, path)
		}
		return nil // tests need no sockets and the like
	})
}
