package elffile

import (
	"io/fs"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/internal/procfs"
)

// InRoot calls f with the ELF file at a path in root (nil: this machine's). Memory faults of a
// file that is truncated meanwhile become errors.
func InRoot(root fs.FS, path string, f func(*File) error) (err error) {
	file, err := procfs.Root(root).Open(strings.TrimPrefix(path, "/"))
	if err != nil {
		return err
	}
	defer file.Close()
	ef, err := NewFS(file)
	if err != nil {
		return err
	}
	defer ef.Close()
	defer Catch(debug.SetPanicOnFault(true), &err)
	return f(ef)
}
