package userfile

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/env"
)

// Mapped calls one for each file that processes have mapped executable, once, with its path in
// the first process that has it, until one returns an error.
func Mapped(e *env.Env, one func(path string) error) error {
	entries, err := fs.ReadDir(e.Root(), "proc")
	if err != nil {
		return err
	}
	type file struct{ dev, inode uint64 }
	seen := map[file]bool{}
	for _, d := range entries {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		f, err := e.Root().Open("proc/" + d.Name() + "/maps")
		if err != nil {
			continue // it has ended
		}
		var paths []string
		_ = procfs.ReadMaps(f, func(m *procfs.Mapping) bool {
			k := file{m.Dev, m.Inode}
			if m.Perm&procfs.Exec != 0 && strings.HasPrefix(m.Path, "/") && !seen[k] {
				seen[k] = true
				paths = append(paths, procfs.Dir(pid)+"/root"+m.Path)
			}
			return true
		})
		f.Close()
		for _, p := range paths {
			if err := one(plainPath(e, p, pid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// MappedBy returns the paths of the files that a process has mapped executable and whose path, or
// name, matches, each once, the program first. A file without a path, or whose path is gone, such
// as the probes of package usdt/provider, is opened by its mapping.
func MappedBy(e *env.Env, pid int, pattern string) ([]string, error) {
	dir := procfs.Dir(pid)
	f, err := e.Root().Open(strings.TrimPrefix(dir, "/") + "/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type file struct {
		path  string
		inode uint64 // files in memory may have one name
	}
	g := glob.Compile(pattern)
	seen := map[file]bool{}
	var paths []string
	err = procfs.ReadMaps(f, func(m *procfs.Mapping) bool {
		is := file{m.Path, m.Inode}
		if m.Perm&procfs.Exec == 0 || !strings.HasPrefix(m.Path, "/") || seen[is] {
			return true
		}
		first := len(seen) == 0
		seen[is] = true
		switch {
		case !g.Match(m.Path) && !g.Match(path.Base(m.Path)):
		case first && (m.Deleted || !exists(e, dir+"/root"+m.Path)):
			paths = append(paths, dir+"/exe")
		case e.Live() && (m.Deleted || strings.HasPrefix(m.Path, "/memfd:")):
			paths = append(paths, fmt.Sprintf("%s/map_files/%x-%x", dir, m.Start, m.End))
		default:
			paths = append(paths, dir+"/root"+m.Path)
		}
		return true
	})
	return paths, err
}

func exists(e *env.Env, path string) bool {
	_, err := Stat(e, path)
	return err == nil
}

// plainPath removes /proc/PID/root from a path that leads to the same file without it.
func plainPath(e *env.Env, p string, pid int) string {
	short := strings.TrimPrefix(p, procfs.Dir(pid)+"/root")
	a, err1 := Stat(e, p)
	b, err2 := Stat(e, short)
	if err2 == nil && (err1 != nil || os.SameFile(a, b)) {
		return short
	}
	return p
}
