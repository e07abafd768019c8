package symbol

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// kernelSource is a vmlinux with DWARF that is the running kernel's.
type kernelSource struct {
	elf   *ELF
	slide uint64 // address in the kernel - address in the file (KASLR)
	err   error  // why there is none
}

// vmlinuxPaths are where distributions install the kernel with its debug
// information: %s is the release. The order is that of perf and libdw.
var vmlinuxPaths = []string{
	"usr/lib/debug/boot/vmlinux-%s", "usr/lib/debug/lib/modules/%s/vmlinux",
	"boot/vmlinux-%s", "lib/modules/%s/vmlinux", "lib/modules/%s/build/vmlinux",
}

// openSource finds the kernel's DWARF.
func (k *Kernel) openSource() *kernelSource {
	s := &kernelSource{}
	if s.err = s.open(k); s.err != nil {
		s.elf.Close()
		s.elf = nil
	}
	return s
}

func (s *kernelSource) open(k *Kernel) (err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	root := procfs.Root(k.opts.Root)
	id, err := kernelBuildID(root)
	if err != nil {
		return err
	}
	release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	paths := []string{k.opts.VMLinux}
	if k.opts.VMLinux == "" {
		paths = []string{"usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug"}
		for _, p := range vmlinuxPaths {
			paths = append(paths, fmt.Sprintf(p, strings.TrimSpace(string(release))))
		}
	}
	for _, p := range paths {
		if s.elf = openVMLinux(root, strings.TrimPrefix(p, "/"), id); s.elf != nil {
			break
		}
	}
	if s.elf == nil {
		return fmt.Errorf("no vmlinux with DWARF and the build-id %s in %s: %w", id, strings.Join(paths, ", "), fs.ErrNotExist)
	}
	const start = "_stext" // include/asm-generic/sections.h; in every kernel
	file, err := s.elf.Lookup(start)
	if err != nil {
		return err
	}
	live, err := k.Lookup(start)
	if err != nil {
		return err
	}
	s.slide = live[0].Addr - file.Addr
	return nil
}

// openVMLinux opens a file that has DWARF and that build-id, nil if it is another.
func openVMLinux(root fs.FS, path, id string) *ELF {
	f, err := root.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	ef, err := readELF(f, st.Size())
	if err != nil {
		return nil
	}
	e := newELF(ef, &ELFOptions{Source: true, RawNames: true, DebugDirs: []string{}, Path: path})
	if e.BuildID() != id || e.findSource().dwarf == nil {
		e.Close()
		return nil
	}
	return e
}

// kernelBuildID reads the running kernel's build-id from its notes.
func kernelBuildID(root fs.FS) (string, error) {
	b, err := fs.ReadFile(root, "sys/kernel/notes")
	if err != nil {
		return "", err
	}
	notes, errOf := elfnotes.All(b, binary.NativeEndian, 4)
	for n := range notes {
		if v, _ := n.Decode(); v != nil {
			if id, ok := v.(elfnotes.ID); ok && len(id) > 1 {
				return hex.EncodeToString(id), nil
			}
		}
	}
	return "", errors.Join(errors.New("the kernel has no build-id"), errOf())
}

// append appends the frames of an address that fr names by kallsyms, with
// positions and inlined calls.
func (s *kernelSource) append(dst []Frame, fr Frame) (out []Frame) {
	n := len(dst)
	var err error
	defer func() {
		if err != nil {
			out = append(dst[:n], fr) // the file was truncated: names are left
		}
	}()
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	src := s.elf.source.Load()
	if src == nil {
		src = s.elf.findSource()
	}
	if src.dwarf == nil {
		return append(dst, fr)
	}
	pc := fr.ModuleOffset
	fr.ModuleOffset = pc - s.slide
	out = s.elf.appendDWARF(src.dwarf, dst, fr)
	fr.ModuleOffset = pc
	for i := n; i < len(out); i++ {
		out[i].ModuleOffset = pc
	}
	return out
}

// SourceErr says why frames have no source positions although
// KernelOptions.Source is set; nil if they have, or if it is not set. It reads
// what is needed for that.
func (k *Kernel) SourceErr() error {
	if k.source == nil {
		return nil
	}
	if err := k.source().err; err != nil {
		return fmt.Errorf("kernel source positions: %w", err)
	}
	return nil
}

// Close frees the vmlinux that KernelOptions.Source opened; without that option
// there is nothing to close. Kernels that With returned share it. It may be
// called again, and must come last.
func (k *Kernel) Close() error {
	if k == nil || k.source == nil {
		return nil
	}
	s := k.source()
	if s.elf == nil {
		return nil
	}
	return s.elf.Close()
}
