package usdt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
)

// Options are the options of Modules. The zero value and nil describe this machine.
type Options struct {
	// Root is a recorded host: a tree with proc/PID/maps and the mapped files. Nil is this
	// machine.
	Root fs.FS
	// Served also reads files that another user's process may serve (FUSE, an overlay in a
	// container of that user's), which may answer late, or differently each time. Otherwise
	// they are returned with an error.
	Served bool
}

// Module is a file that a process has mapped executable, with its probes.
type Module struct {
	// Path is the file as the process sees it, without " (deleted)". It may not exist: the
	// process may be in a container, and the file may have been replaced or be anonymous
	// ("/memfd:…").
	Path string
	// Attach is a path by which this process can open exactly that file: in the other
	// process's root, among its open files, or among its mappings. Uprobes are attached to
	// it. It is empty for a recorded host.
	Attach string
	// Bias is added to a site's PC or semaphore, modulo 2^64, to get the address in the
	// process.
	Bias  uint64
	Sites []Site
	// Err is the error of reading the file, nil if all of it was read.
	Err error
}

// Modules returns the files with USDT probes that a process has mapped: its program, its
// libraries, and files that it loaded or made at run time. A file is identified by device and
// inode, so that it is found also if it was deleted or replaced, is in another mount namespace,
// or has no name. Files without probes are left out; files that can't be read are included,
// with their Err.
//
// It needs the right to trace the process (PTRACE_MODE_READ), and CAP_CHECKPOINT_RESTORE (Linux
// 5.9) or CAP_SYS_ADMIN for files that are gone.
func Modules(pid int, opts *Options) ([]Module, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	maps, err := executable(o.Root, pid)
	if err != nil {
		return nil, fmt.Errorf("usdt probes of process %d: %w", pid, err)
	}
	var modules []Module
	for i := range maps {
		m := &maps[i]
		mod := Module{Path: m.Path}
		f, attach, err := openMapped(&o, pid, m)
		if err != nil {
			mod.Err = err
			modules = append(modules, mod)
			continue
		}
		mod.Attach = attach
		mod.Sites, mod.Err = f.Sites()
		mod.Bias, _ = f.f.Bias(m.Start, m.Offset, m.End-m.Start, true)
		f.Close()
		if len(mod.Sites) > 0 || mod.Err != nil {
			modules = append(modules, mod)
		}
	}
	return modules, nil
}

// executable returns the first executable mapping of every file.
func executable(root fs.FS, pid int) ([]procfs.Mapping, error) {
	r, err := procfs.Root(root).Open(fmt.Sprintf("proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	type file struct{ dev, inode uint64 }
	seen := map[file]bool{}
	var maps []procfs.Mapping
	err = procfs.ReadMaps(r, func(m *procfs.Mapping) bool {
		id := file{m.Dev, m.Inode}
		if m.Perm&procfs.Exec != 0 && m.Inode != 0 && strings.HasPrefix(m.Path, "/") && !seen[id] {
			seen[id] = true
			maps = append(maps, *m)
		}
		return true
	})
	return maps, err
}

// openMapped opens the file of a mapping, and returns the path by which it was opened.
func openMapped(o *Options, pid int, m *procfs.Mapping) (*File, string, error) {
	if o.Root != nil {
		f, err := openRecorded(o.Root, m.Path)
		return f, "", err
	}
	file, attach, err := openLive(pid, m, o.Served)
	if err != nil {
		return nil, "", err
	}
	f, err := elffile.NewFile(file)
	if err != nil {
		file.Close()
		return nil, "", fmt.Errorf("%s: %w", m.Path, err)
	}
	return newFile(f), attach, nil
}

// openRecorded reads a file of a recorded tree.
func openRecorded(root fs.FS, path string) (*File, error) {
	file, err := root.Open(strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := elffile.NewFS(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newFile(f), nil
}

// openLive tries the path in the process's root and in this process's root (the kernel prints
// it as seen from here if it can, and a chroot does not prevent that), an open file, and the
// mapping itself.
func openLive(pid int, m *procfs.Mapping, served bool) (fs.File, string, error) {
	anonymous := strings.HasPrefix(m.Path, "/memfd:")
	if !anonymous && !m.Deleted {
		if f := openPath(pid, m, served); f != nil {
			return f, fmt.Sprintf("/proc/%d/root%s", pid, m.Path), nil
		}
		if f := openPath(os.Getpid(), m, served); f != nil {
			return f, m.Path, nil
		}
	}
	if anonymous {
		if f := openDescriptor(pid, m); f != nil {
			return f, f.Name(), nil
		}
	}
	f, err := procfs.OpenMapping(pid, m, served)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", m.Path, err)
	}
	return f, fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End), nil
}

// openPath opens the mapping's path in the root of a process. It returns nil if that isn't
// the mapped file.
func openPath(pid int, m *procfs.Mapping, served bool) fs.File {
	f, err := procfs.OpenInRoot(pid, m.Path, served)
	if err != nil {
		return nil
	}
	if procfs.IsMapped(f, pid, m) {
		return f
	}
	f.Close()
	return nil
}

// openDescriptor opens an anonymous file among the process's open files, nil if it isn't one:
// other tracers find it only there.
func openDescriptor(pid int, m *procfs.Mapping) *os.File {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range list {
		name := dir + "/" + e.Name()
		if target, err := os.Readlink(name); err != nil || !strings.HasPrefix(target, m.Path) {
			continue
		}
		f, err := procfs.Open(name)
		if err != nil {
			continue
		}
		if dev, inode, err := procfs.FileID(f); err == nil && dev == m.Dev && inode == m.Inode {
			return f
		}
		f.Close()
	}
	return nil
}

// Find returns the sites of one probe in the file. The error matches os.ErrNotExist if there
// is none, joined with errors of sites that could not be read.
func (f *File) Find(provider, name string) (Probe, error) {
	probes, err := f.Probes()
	for _, p := range probes {
		if p.Provider == provider && p.Name == name {
			return p, nil
		}
	}
	missing := notexist.Errorf("no USDT probe %s:%s in the file, which has %d", provider, name,
		len(probes))
	return Probe{}, errors.Join(missing, err)
}
