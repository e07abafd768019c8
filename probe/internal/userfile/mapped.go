package userfile

import (
	"io/fs"
	"os"
	"strconv"
	"strings"

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
