package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// WriteFile has write make the contents of a file that the user names. It writes a new file in
// the same directory and renames it: readers see all of it or what was there before, the file
// of a running program can be replaced, and a link that another user put there is replaced, not
// followed. If write fails, nothing changes. perm is the new file's mode, before the umask.
//
// Names in /dev (/dev/stdout) and names of pipes and devices are opened and written to, because
// they cannot be replaced.
func WriteFile(name string, perm fs.FileMode, write func(io.Writer) error) error {
	info, err := os.Lstat(name)
	switch {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "write", Path: name, Err: errors.New("is a directory")}
	case strings.HasPrefix(name, "/dev/"),
		err == nil && info.Mode()&(fs.ModeDevice|fs.ModeNamedPipe) != 0:
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return fill(f, write)
	}
	f, err := createBeside(name, perm)
	if err != nil {
		return err
	}
	if err = fill(f, write); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// createBeside creates a file that did not exist in the directory of another.
func createBeside(name string, perm fs.FileMode) (f *os.File, err error) {
	dir, base := filepath.Split(name)
	for range 100 { // until a name is free
		beside := fmt.Sprintf("%s.%s-%x", dir, base, rand.Uint64())
		f, err = os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}

// fill writes and closes a file.
func fill(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	return errors.Join(err, f.Close())
}
