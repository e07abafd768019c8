package kernel

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

// Module is a kernel module, decompressed.
type Module struct {
	Name  string
	Image []byte
}

// LoadModules returns the named modules ("virtio_blk") and all their dependencies, in the
// order of loading. It omits modules that are built into the kernel. It reads the dependencies
// from the modules themselves, because modules.dep is only created when a package is
// installed.
func (k *Kernel) LoadModules(names ...string) ([]Module, error) {
	if len(names) == 0 {
		return nil, nil
	}
	l := loader{kernel: k, seen: map[string]bool{}}
	if err := l.index(); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := l.add(name); err != nil {
			return nil, fmt.Errorf("kernel %s: module %s: %w", k, name, err)
		}
	}
	return l.modules, nil
}

// HasModule reports whether the kernel has a module, built in or not.
func (k *Kernel) HasModule(name string) (bool, error) {
	l := loader{kernel: k}
	if err := l.index(); err != nil {
		return false, err
	}
	return l.builtin[name] || l.files[name] != "", nil
}

type loader struct {
	kernel  *Kernel
	files   map[string]string // module name to path
	builtin map[string]bool
	seen    map[string]bool
	modules []Module
}

// index lists the kernel's modules.
func (l *loader) index() error {
	b, err := os.ReadFile(filepath.Join(l.kernel.Modules, "modules.builtin"))
	if err != nil {
		return err
	}
	l.builtin = map[string]bool{}
	for _, line := range strings.Fields(string(b)) {
		l.builtin[moduleName(line)] = true
	}
	l.files = map[string]string{}
	return filepath.WalkDir(l.kernel.Modules, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), ".ko") {
			l.files[moduleName(path)] = path
		}
		return err
	})
}

// moduleName returns the kernel's name of the module in a file: virtio_blk for
// virtio-blk.ko.xz.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// add appends a module after its dependencies.
func (l *loader) add(name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	if l.seen[name] || l.builtin[name] {
		return nil
	}
	l.seen[name] = true
	path, ok := l.files[name]
	if !ok {
		return fs.ErrNotExist
	}
	image, err := readModule(path)
	if err != nil {
		return err
	}
	deps, err := dependencies(image)
	if err != nil {
		return err
	}
	for _, d := range deps {
		if err := l.add(d); err != nil {
			return fmt.Errorf("needs %s: %w", d, err)
		}
	}
	l.modules = append(l.modules, Module{name, image})
	return nil
}

func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(path, ".xz") {
		return io.ReadAll(f)
	}
	r, err := xz.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// dependencies reads "depends=a,b" in the module's .modinfo.
func dependencies(image []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, field := range bytes.Split(info, []byte{0}) {
		if v, ok := bytes.CutPrefix(field, []byte("depends=")); ok && len(v) > 0 {
			return strings.Split(string(v), ","), nil
		}
	}
	return nil, nil
}
