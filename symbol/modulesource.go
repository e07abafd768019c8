package symbol

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/elffile"
)

// A module's DWARF is in the module itself, or in its debug file. Both are object files: the
// kernel chose the places of their sections, and shows them in /sys/module/NAME/sections
// (kernel/module/sysfs.c). The sections get the same addresses here, so that the file's
// addresses are the kernel's.

// module returns the file of the module that contains fr, nil if there is none.
func (s *kernelSource) module(fr *Frame) *ELF {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, tried := s.modules[fr.Module]
	if !tried {
		e = s.openModule(strings.Trim(fr.Module, "[]"), fr.ModuleOffset-fr.Offset)
		s.modules[fr.Module] = e
	}
	return e
}

// openModule opens the file of a module that has a function at address start.
func (s *kernelSource) openModule(name string, start uint64) *ELF {
	id, err := buildIDIn(s.root, "sys/module/"+name+"/notes/.note.gnu.build-id")
	if err != nil {
		return nil
	}
	for _, p := range s.modulePaths(name, id) {
		e := openKernelFile(s.root, p, id, func(f *elffile.File) {
			f.LayOutAt(func(section string) (uint64, bool) { return s.sectionAddr(name, section) })
		})
		if e == nil {
			continue
		}
		// Kallsyms may be older than /sys: the module was loaded again.
		if t, err := e.table(false); err == nil {
			if i, _ := t.lookup(start); i != noSym && t.at(i) == start {
				return e
			}
		}
		e.Close()
	}
	return nil
}

// modulePaths returns the possible paths of a module's file.
func (s *kernelSource) modulePaths(name, id string) []string {
	paths := []string{elffile.ByBuildID(elffile.DebugDir, id)}
	dep := s.moduleFile(name)
	if dep == "" {
		return paths
	}
	plain := strings.TrimSuffix(dep, path.Ext(dep)) // without .xz, .zst, .gz
	if strings.HasSuffix(dep, ".ko") {
		plain = dep
	}
	dir := "lib/modules/" + s.release + "/"
	return append(paths, "usr/lib/debug/"+dir+plain, "usr/lib/debug/"+dir+plain+".debug",
		"usr/lib/debug/usr/"+dir+plain+".debug", dir+dep)
}

// moduleFile returns the path of a module below lib/modules/RELEASE, from modules.dep. "_" in a
// module's name stands for "-" too.
func (s *kernelSource) moduleFile(name string) string {
	deps, err := fs.ReadFile(s.root, "lib/modules/"+s.release+"/modules.dep")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(deps) {
		file, _, _ := strings.Cut(string(line), ":")
		base, _, ok := strings.Cut(path.Base(file), ".ko")
		if ok && strings.ReplaceAll(base, "-", "_") == name {
			return file
		}
	}
	return ""
}

// sectionAddr returns the address of a section of a module.
func (s *kernelSource) sectionAddr(module, section string) (uint64, bool) {
	b, err := fs.ReadFile(s.root, "sys/module/"+module+"/sections/"+section)
	if err != nil {
		return 0, false
	}
	addr, err := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 64)
	return addr, err == nil && addr != 0 // 0: hidden, as in kallsyms
}

// maxModule is far above the size of any module with DWARF.
const maxModule = 512 << 20

// readKernelFile reads a vmlinux or module, which may be compressed.
func readKernelFile(f fs.File) (*elffile.File, error) {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	switch path.Ext(st.Name()) {
	case ".xz", ".zst", ".gz":
	default:
		return elffile.NewFS(f)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxModule))
	if err != nil {
		return nil, err
	}
	if b, err = decompress.All(decompress.Detect(b), b, maxModule); err != nil {
		return nil, err
	}
	return elffile.NewBytes(b)
}
