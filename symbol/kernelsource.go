package symbol

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// kernelSource is the running kernel's DWARF: a vmlinux, and modules.
type kernelSource struct {
	root    fs.FS
	release string // uname -r
	elf     *ELF   // nil without a vmlinux with DWARF
	slide   uint64 // address in the kernel - address in the file (KASLR)
	err     error  // why elf is nil

	mu      sync.Mutex
	modules map[string]*ELF // by "[name]", nil without a file; guarded by mu
}

// lazySource is a kernelSource that is opened when it is first needed.
type lazySource struct {
	open func() *kernelSource
	mu   sync.Mutex
	s    *kernelSource // nil before that; guarded by mu
}

func (l *lazySource) get() *kernelSource {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s == nil {
		l.s = l.open()
	}
	return l.s
}

// close closes the kernelSource if it was opened.
func (l *lazySource) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s == nil {
		return nil
	}
	return l.s.close()
}

// vmlinuxPaths are the paths at which distributions install the kernel with its debug
// information: %s is the release. The order is that of perf and libdw.
var vmlinuxPaths = []string{
	"usr/lib/debug/boot/vmlinux-%s", "usr/lib/debug/lib/modules/%s/vmlinux",
	"boot/vmlinux-%s", "lib/modules/%s/vmlinux", "lib/modules/%s/build/vmlinux",
}

// openSource opens the kernel's DWARF.
func (k *Kernel) openSource() *kernelSource {
	s := &kernelSource{root: procfs.Root(k.opts.Root), modules: map[string]*ELF{}}
	if s.err = s.open(k); s.err != nil {
		s.elf.Close()
		s.elf = nil
	}
	return s
}

func (s *kernelSource) open(k *Kernel) (err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	release, err := fs.ReadFile(s.root, "proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	s.release = strings.TrimSpace(string(release))
	id, err := buildIDIn(s.root, "sys/kernel/notes")
	if err != nil {
		return err
	}
	paths := []string{k.opts.VMLinux}
	if k.opts.VMLinux == "" {
		paths = []string{elffile.ByBuildID(elffile.DebugDir, id)}
		for _, p := range vmlinuxPaths {
			paths = append(paths, fmt.Sprintf(p, s.release))
		}
	}
	for _, p := range paths {
		if s.elf = openKernelFile(s.root, p, id, nil); s.elf != nil {
			break
		}
	}
	if s.elf == nil {
		return fmt.Errorf("no vmlinux with DWARF and the build-id %s in %s: %w", id,
			strings.Join(paths, ", "), fs.ErrNotExist)
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

// openKernelFile opens a file that has DWARF and the build-id. It returns nil if the file is
// another one. place, which may be nil, sets the addresses of its sections.
func openKernelFile(root fs.FS, path, id string, place func(*elffile.File)) *ELF {
	path = strings.TrimPrefix(path, "/")
	f, err := root.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	ef, err := readKernelFile(f)
	if err != nil {
		return nil
	}
	if place != nil {
		place(ef)
	}
	e := newELF(ef, procfs.Anybody, &ELFOptions{Source: true, RawNames: true, Path: path})
	// The files that dwz moved parts to, and those of split DWARF, are in the same tree.
	e.opts.find.Open = func(name string) (fs.File, error) {
		return root.Open(strings.TrimPrefix(name, "/"))
	}
	if e.BuildID() != id || e.findSource().dwarf == nil {
		e.Close()
		return nil
	}
	return e
}

// buildIDIn returns the build-id in a file of notes, such as those in /sys.
func buildIDIn(root fs.FS, path string) (string, error) {
	b, err := fs.ReadFile(root, path)
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
	return "", errors.Join(fmt.Errorf("no build-id in %s", path), errOf())
}

// append appends the frames of an address that fr names by kallsyms, with
// positions and inlined calls.
func (s *kernelSource) append(dst []Frame, fr Frame, isModule bool) (out []Frame) {
	n := len(dst)
	var err error
	defer func() {
		if err != nil {
			out = append(dst[:n], fr) // the file was truncated: names are left
		}
	}()
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	e, slide := s.elf, s.slide
	if isModule {
		e, slide = s.module(&fr), 0
	}
	if e == nil {
		return append(dst, fr)
	}
	pc := fr.ModuleOffset
	fr.ModuleOffset = pc - slide
	out = e.appendDWARF(e.findSource().dwarf, dst, fr) // not nil: see openKernelFile
	fr.ModuleOffset = pc
	for i := n; i < len(out); i++ {
		out[i].ModuleOffset = pc
	}
	return out
}

// SourceErr returns why the kernel's frames have no source positions although
// KernelOptions.Source is set; nil if they have, or if it is not set. It reads the files that
// are needed to find that out. Modules have their own files: their frames have positions if
// those files are found.
func (k *Kernel) SourceErr() error {
	if k.source == nil {
		return nil
	}
	if err := k.source.get().err; err != nil {
		return fmt.Errorf("kernel source positions: %w", err)
	}
	return nil
}

// Close frees the files that KernelOptions.Source opened; without that option it does nothing.
// Kernels returned by With share the files. It may be called more than once, and must come
// last.
func (k *Kernel) Close() error {
	if k == nil || k.source == nil {
		return nil
	}
	return k.source.close()
}

func (s *kernelSource) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.elf.Close()}
	for _, e := range s.modules {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}
