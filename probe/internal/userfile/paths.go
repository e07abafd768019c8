package userfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/env"
)

// Paths returns the paths, as this process can open them, for the file of a user probe: an
// absolute or relative path, a pattern, a library's soname, or a program's name. With a pid,
// it finds them as that process does, but that a relative path begins at this process's
// directory, and a pattern without a slash is one for the files that it has mapped executable.
func Paths(e *env.Env, name string, pid int) ([]string, error) {
	if pid < 0 {
		return nil, fmt.Errorf("bad pid %d", pid)
	}
	if pid != 0 {
		if _, err := Stat(e, procfs.Dir(pid)); err != nil {
			return nil, notexist.Errorf("no process %d", pid)
		}
	}
	switch {
	case name == "" && pid == 0:
		return nil, errors.New("it names no file: give a path, or a pid for that process's program")
	case name == "":
		return []string{procfs.Dir(pid) + "/exe"}, nil
	case strings.Contains(name, ZipSeparator):
		if paths, err := zipPaths(e, name, pid); paths != nil || err != nil {
			return paths, err
		}
	case pid != 0 && glob.IsPattern(name) && !strings.Contains(name, "/"):
		paths, err := MappedBy(e, pid, name)
		if err == nil && len(paths) == 0 {
			err = notexist.Errorf("process %d has mapped no file whose name matches %s", pid, name)
		}
		return paths, err
	case !strings.Contains(name, "/"):
		p, err := FindByName(e, name, pid)
		return []string{p}, err
	}
	// Paths below /proc are not below a process's root: the kernel resolves links like PID/exe
	// and PID/fd/N to files, not to paths in a root.
	root := ""
	if pid != 0 && !strings.HasPrefix(path.Clean(name), "/proc/") {
		root = procfs.Dir(pid) + "/root"
	}
	if !path.IsAbs(name) {
		switch {
		case e.Live():
			abs, err := filepath.Abs(name)
			if err != nil {
				return nil, err
			}
			name = abs
		case pid != 0:
			return nil, fmt.Errorf("%s: a relative path does not go with a pid: whose directory is meant?",
				name)
		}
	}
	if glob.IsPattern(name) {
		if _, err := Stat(e, root+name); err != nil {
			return globPaths(e, root, name)
		}
	}
	if _, err := Stat(e, root+name); err != nil {
		return nil, noFile(e, name, pid, err)
	}
	return []string{root + name}, nil
}

// Spelled returns one of the paths that Paths returns for name, and a process if there is one, as name
// spells it: a relative one stays so, and one in the process's root begins there.
func Spelled(name, path string, pid int) string {
	if pid != 0 {
		path = strings.TrimPrefix(path, procfs.Dir(pid)+"/root")
	}
	if filepath.IsAbs(name) || !strings.Contains(name, "/") {
		return path
	}
	if !glob.IsPattern(name) {
		return name
	}
	dir := name[:strings.LastIndex(name[:strings.IndexAny(name, "*?[")], "/")+1]
	abs, err := filepath.Abs(dir)
	if rest, ok := strings.CutPrefix(path, abs+"/"); ok && err == nil {
		return dir + rest
	}
	return path
}

// zipPaths returns the paths of a file in archives, none if the archive is not a file.
func zipPaths(e *env.Env, name string, pid int) ([]string, error) {
	archive, member, _ := strings.Cut(name, ZipSeparator)
	paths, err := Paths(e, archive, pid)
	if err != nil {
		if _, plain := Stat(e, name); plain == nil {
			return nil, nil
		}
		return nil, err
	}
	var out []string
	for _, p := range paths {
		if _, _, ok := CutZip(e, p+ZipSeparator+member); ok {
			out = append(out, p+ZipSeparator+member)
		}
	}
	return out, nil
}

// Stat describes the file at a path of the machine, without opening it.
func Stat(e *env.Env, name string) (fs.FileInfo, error) {
	return fs.Stat(e.Root(), strings.TrimPrefix(path.Clean(name), "/"))
}

func globPaths(e *env.Env, root, name string) ([]string, error) {
	d := dirsOf(e)
	list, err := fs.Glob(d, strings.TrimPrefix(root+name, "/"))
	if err = cmp.Or(err, d.err); err != nil { // Glob skips directories that it cannot read
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var out []string
	for _, p := range list {
		if st, err := fs.Stat(e.Root(), p); err == nil && st.Mode().IsRegular() {
			out = append(out, "/"+p)
		}
	}
	if len(out) == 0 {
		return nil, notexist.Errorf("%s matches no file", name)
	}
	return out, nil
}

// noFile returns an error for a path that does not exist, with what else it could mean: a file
// in the mount namespace of a process, or a file with a similar name.
func noFile(e *env.Env, name string, pid int, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if pid != 0 {
		return notexist.Errorf("process %d has no file %s in its root", pid, name)
	}
	if other := processWith(e, name); other != 0 {
		return notexist.Errorf("no file %s here; process %d runs one of that name in a mount namespace of its own: probe %s/root%s or give pid=%d",
			name, other, procfs.Dir(other), name, other)
	}
	var names []string
	entries, _ := dirsOf(e).ReadDir(strings.TrimPrefix(path.Dir(name), "/"))
	for _, d := range entries {
		names = append(names, d.Name())
	}
	return notexist.Errorf("no file %s%s", name, near.Hint(path.Base(name), names))
}

// processWith finds a process that has a file with this path in its own root. It returns 0 if
// there is none.
func processWith(e *env.Env, name string) int {
	entries, _ := fs.ReadDir(e.Root(), "proc")
	for _, d := range entries {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if _, err := Stat(e, procfs.Dir(pid)+"/root"+name); err == nil {
			return pid
		}
	}
	return 0
}

// FindByName finds a library by its soname or the beginning of it ("libc"), or a program in
// the usual directories. If pid is not 0, it searches the process's root.
func FindByName(e *env.Env, name string, pid int) (string, error) {
	root := ""
	if pid != 0 {
		root = procfs.Dir(pid) + "/root"
		if p := mappedLibrary(e, name, pid); p != "" {
			return root + p, nil
		}
	}
	if p := CachedLibrary(e, root, name); p != "" {
		return root + p, nil
	}
	d := dirsOf(e)
	for _, dir := range libraryDirs(e) {
		if p := libraryIn(d, root+dir, name); p != "" {
			return p, nil
		}
	}
	for _, dir := range []string{
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin",
		"/bin",
	} {
		p := dir + "/" + name
		if st, err := Stat(e, root+p); err == nil && st.Mode().IsRegular() {
			return root + p, nil
		}
	}
	if d.err != nil {
		return "", fmt.Errorf("find %s: %w", name, d.err)
	}
	return "", notexist.Errorf("no library or program called %s: ld.so.cache, the library directories and the usual bin directories have none",
		name)
}

// isLibrary reports whether name refers to the file: it is the soname itself, or the file is
// NAME.so or NAME.so.6, with or without "lib" before it.
func isLibrary(file, name string) bool {
	if file == name {
		return true
	}
	rest, ok := strings.CutPrefix(file, name)
	if !ok {
		rest, ok = strings.CutPrefix(file, "lib"+name)
	}
	return ok && (rest == ".so" || strings.HasPrefix(rest, ".so."))
}

// mappedLibrary returns the path of the library that the process has mapped, empty if none.
func mappedLibrary(e *env.Env, name string, pid int) string {
	f, err := e.Root().Open(strings.TrimPrefix(procfs.Dir(pid), "/") + "/maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	found := ""
	_ = procfs.ReadMaps(f, func(m *procfs.Mapping) bool {
		if isLibrary(path.Base(m.Path), name) {
			found = m.Path
		}
		return found == ""
	})
	return found
}

// libraryDirs returns the directories that the dynamic linker trusts (elf/dl-load.c,
// system_dirs), with Debian's multiarch directories.
func libraryDirs(e *env.Env) []string {
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[e.Arch()]
	return []string{
		"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib",
		"/usr/lib", "/usr/local/lib",
	}
}

// libraryIn returns the path of the library in a directory, empty if it has none.
func libraryIn(d *Dirs, dir, name string) string {
	dir = strings.TrimPrefix(dir, "/")
	entries, err := d.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		if isLibrary(entry.Name(), name) {
			p := dir + "/" + entry.Name()
			if st, err := d.Stat(p); err == nil && st.Mode().IsRegular() {
				return "/" + p
			}
		}
	}
	return ""
}

// CachedLibrary looks the name up in the dynamic linker's cache. It returns "" if it is not
// there.
func CachedLibrary(e *env.Env, root, name string) string {
	b, err := ReadAtMost(e, root+"/etc/ld.so.cache", MaxLdCache)
	if err != nil {
		return ""
	}
	var like []byte
	for soname, path := range LdCache(b, LdFlags[e.Arch()]) {
		if string(soname) == name {
			return string(path)
		}
		if like == nil && isLibrary(string(soname), name) {
			like = path
		}
	}
	return string(like)
}

// MaxLdCache bounds the size of ld.so.cache, far above that of any distribution. A target's
// own file may have any size, or a size and no contents.
const MaxLdCache = 16 << 20

// ReadAtMost reads a file of at most the given number of bytes, in a process's root with the
// rights of its user.
func ReadAtMost(e *env.Env, name string, most int64) ([]byte, error) {
	f, err := openFor(e, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if st.Size() > most {
		return nil, fmt.Errorf("%s: %d bytes, more than %d", name, st.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// openFor opens a file that a convention names. In a process's root, which the process's user
// may have made, it is one that this user may read.
func openFor(e *env.Env, name string) (fs.File, error) {
	if pid, in, ok := procfs.TargetPath(name); ok && e.Live() {
		u, err := procfs.UserOf(e.Root(), pid)
		if err != nil {
			return nil, err
		}
		return procfs.OpenFor(u, pid, in)
	}
	return e.Root().Open(strings.TrimPrefix(name, "/"))
}

// LdFlags maps architectures to the flags of their entries: FLAG_ELF_LIBC6 and
// FLAG_X8664_LIB64 or FLAG_AARCH64_LIB64 (sysdeps/generic/ldconfig.h).
var LdFlags = map[string]uint32{"amd64": 0x0303, "arm64": 0x0a03}

// LdCache returns an iterator over the sonames and paths of the entries with the given flags
// in a glibc-ld.so.cache1.1 (struct cache_file_new, sysdeps/generic/dl-cache.h), which may
// follow the older format. It skips malformed entries. The slices are parts of b; entries may
// share them.
func LdCache(b []byte, flags uint32) iter.Seq2[[]byte, []byte] {
	return func(yield func(soname, path []byte) bool) {
		const magic = "glibc-ld.so.cache1.1"
		i := bytes.Index(b, []byte(magic))
		if i < 0 || len(b)-i < 48 {
			return
		}
		b := b[i:]
		order := binary.ByteOrder(binary.LittleEndian)
		if b[28]&3 == 3 { // cache_file_new_flags_endian_big
			order = binary.BigEndian
		}
		n := uint64(order.Uint32(b[20:]))
		for k := uint64(0); k < n && 48+24*(k+1) <= uint64(len(b)); k++ {
			e := b[48+24*k:]
			// hwcap is not 0 for variants of a library for newer CPUs.
			if order.Uint32(e) != flags || order.Uint64(e[16:]) != 0 {
				continue
			}
			soname, path := cString(b, order.Uint32(e[4:]), 255), cString(b, order.Uint32(e[8:]), 4095)
			if soname != nil && path != nil && !yield(soname, path) {
				return
			}
		}
	}
}

// cString returns the text at an offset, nil unless it has 1 to most bytes.
func cString(b []byte, off uint32, most int) []byte {
	if uint64(off) >= uint64(len(b)) {
		return nil
	}
	b = b[off:]
	b = b[:min(most+1, len(b))]
	n := bytes.IndexByte(b, 0)
	if n <= 0 {
		return nil
	}
	return b[:n]
}
