package symbol

import (
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

func debugDirs(dirs []string) []string {
	if dirs == nil {
		return []string{elffile.DebugDir}
	}
	return dirs
}

// openDebug opens a debug file in the root of one of the processes. Directories for debug files
// are searched in this process's root with its own rights. Whatever else a file names, beside
// itself or by a path in it, may be a link that a stranger made: it is opened with the rights
// of u, whom the file or the process that maps it belongs to.
func openDebug(u procfs.User, dirs []string, name string, pids ...int) (fs.File, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		own := slices.ContainsFunc(dirs, func(dir string) bool {
			return pid == os.Getpid() && strings.HasPrefix(name, filepath.Clean(dir)+"/")
		})
		var f fs.File
		if own {
			f, err = procfs.OpenInRoot(pid, name, false)
		} else {
			f, err = procfs.OpenFor(u, pid, name)
		}
		if err == nil {
			return f, nil
		}
	}
	return nil, err
}

// symbolFile returns the file with the symbol table: this one, its debug file, or the one in
// .gnu_debugdata. The caller holds mu.
func (e *ELF) symbolFile() *elffile.File {
	if e.f.SectionOfType(elf.SHT_SYMTAB) != nil {
		return e.f
	}
	if d := e.debugFile(); d != nil && d.SectionOfType(elf.SHT_SYMTAB) != nil {
		return d
	}
	return e.f
}

// debugFile returns the separate debug file, nil if there is none. The caller
// holds mu.
func (e *ELF) debugFile() *elffile.File {
	if e.debugTried {
		return e.debug
	}
	e.debugTried = true
	if e.debug = e.opts.find.Find(e.f, e.buildID); e.debug == nil {
		e.debug = elffile.MiniDebug(e.f)
	}
	if e.debug != nil {
		e.debug.LayOutAs(e.f)
	}
	return e.debug
}
