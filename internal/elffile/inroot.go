package elffile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/borescope/borescope/internal/procfs"
)

// InRoot calls f with the ELF file at a path of a tree (nil: this machine's).
func InRoot(root fs.FS, path string, f func(*File) error) error {
	file, err := procfs.Root(root).Open(strings.TrimPrefix(path, "/"))
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	r, ok := file.(io.ReaderAt)
	if !ok {
		return fmt.Errorf("no random access: %w", errors.ErrUnsupported)
	}
	ef, err := New(r, st.Size())
	if err != nil {
		return err
	}
	defer ef.Close()
	return f(ef)
}
