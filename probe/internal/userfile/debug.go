package userfile

import (
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/env"
)

// DebugFinder returns what finds the separate debug files of a file that OpenELF has opened, which
// has returned file to close it.
func DebugFinder(e *env.Env, path string, file io.Closer) *elffile.DebugFinder {
	dirs := e.DebugDirs()
	if !e.Live() {
		return &elffile.DebugFinder{Path: path, Dirs: dirs, Open: func(name string) (fs.File, error) {
			return e.Root().Open(strings.TrimPrefix(name, "/"))
		}}
	}
	user, pids := procfs.Anybody, []int{os.Getpid()}
	if f, ok := file.(fs.File); !ok {
		path = "" // it is in an archive
	} else if st, err := f.Stat(); err == nil {
		user = procfs.Owner(st)
	}
	if pid, in, ok := procfs.TargetPath(path); ok {
		path, pids = in, append([]int{pid}, pids...)
		user = procfs.Anybody
		if u, err := procfs.UserOf(e.Root(), pid); err == nil {
			user = u
		}
	}
	return &elffile.DebugFinder{Path: path, Dirs: dirs, Open: func(name string) (fs.File, error) {
		return elffile.OpenDebug(user, dirs, name, pids...)
	}}
}
