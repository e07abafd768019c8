package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	extension  = ".bt"
	mostText   = 1 << 20
	mostInADir = 256
)

// readScripts returns the scripts of a directory by their names, and why some could not be read. They
// run with this process's privileges: neither the directory nor a script may be one that another user
// can change.
func readScripts(dir string) (texts map[string]string, failed map[string]error, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	if err := trusted(d); err != nil {
		return nil, nil, err
	}
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	texts, failed = map[string]string{}, map[string]error{}
	for _, name := range names {
		if !strings.HasSuffix(name, extension) || strings.HasPrefix(name, ".") {
			continue
		}
		if len(texts)+len(failed) == mostInADir {
			return nil, nil, fmt.Errorf("%s has more than %d scripts", dir, mostInADir)
		}
		text, err := readScript(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone meanwhile
		}
		if err != nil {
			failed[name] = err
			continue
		}
		texts[name] = text
	}
	return texts, failed, nil
}

// readScript reads a script. It may be a link, as in a ConfigMap: the directory's owner made it.
func readScript(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO keeps nobody waiting
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := trusted(f); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, mostText+1))
	if err == nil && len(b) > mostText {
		err = fmt.Errorf("%s has more than %d bytes", path, mostText)
	}
	return string(b), err
}

// trusted returns an error for a file that another user than root and this one can change.
func trusted(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, who could have anything run", f.Name(), st.Uid)
	}
	if info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others, who could have anything run", f.Name())
	}
	return nil
}
