package procfs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the most symbolic links in a path, as for the kernel (MAXSYMLINKS).
const maxLinks = 40

// walker resolves a path below a root directory, one name at a time: it looks for no name in
// a directory, and reads no link, before it knows that no stranger serves that file system.
// The kernel's own walk (openat2(2), RESOLVE_IN_ROOT) would ask the server, and wait for it.
type walker struct {
	pid  int   // whose mount table is used
	dirs []int // the directories of the path so far, the root first, identified only (O_PATH)
	// as, if not nil, is the user whose rights by mode the path must respect.
	as *User
	// noLink refuses a link as the last part.
	noLink bool
	// served allows what strangers may serve.
	served bool
	// patient is set if the caller may wait. Else the walk ends with an *remoteError where
	// something remote would be asked.
	patient bool

	links int
	at    found // the mount of the file that was looked at last
}

// walk resolves a path below a root directory, which is open. Absolute links and ".." stay
// below it. It returns a descriptor that only identifies the file.
func (w *walker) walk(root int, name string) (fd int, err error) {
	if w.as == nil {
		if fd, err = w.within(root, name); !errors.Is(err, errSlow) {
			return fd, err
		}
	}
	defer func() {
		for _, dir := range w.dirs {
			unix.Close(dir)
		}
	}()
	own, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	w.dirs = []int{own}
	if _, err := w.look(own); err != nil {
		return -1, err
	}
	parts := strings.Split(name, "/")
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if n := len(w.dirs); n > 1 {
				unix.Close(w.dirs[n-1])
				w.dirs = w.dirs[:n-1]
			}
			continue
		}
		target, err := w.step(part, parts)
		if err != nil {
			return -1, err
		}
		if target == "" {
			continue
		}
		if strings.HasPrefix(target, "/") {
			for _, dir := range w.dirs[1:] {
				unix.Close(dir)
			}
			w.dirs = w.dirs[:1]
		}
		parts = append(strings.Split(target, "/"), parts...)
		if len(parts) > unix.PathMax {
			return -1, unix.ENAMETOOLONG
		}
	}
	n := len(w.dirs) - 1
	fd, w.dirs = w.dirs[n], w.dirs[:n]
	return fd, nil
}

// errSlow is the error for a path that has to be resolved name by name.
var errSlow = errors.New("the path leaves the mount")

// within resolves a path that stays in the mount of the root directory, which is checked: the
// kernel then asks no other file system. It returns errSlow for others.
func (w *walker) within(root int, name string) (fd int, err error) {
	if _, err := w.look(root); err != nil {
		return -1, err
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	}
	if w.noLink {
		how.Flags |= unix.O_NOFOLLOW
	}
	fd, err = openAt2(root, name, &how)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT) && name != "", errors.Is(err, unix.EACCES),
		errors.Is(err, unix.ENOTDIR):
		return -1, err
	default: // EXDEV, EAGAIN after a rename, ENOSYS where a filter has no openat2
		return -1, errSlow
	}
	mode, err := w.look(fd)
	if err == nil && mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// last reports whether what remains of a path names nothing.
func last(parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return part != "" && part != "." })
}

// step looks for a name in the current directory and makes it the current one, or, for a
// link, returns where that leads. rest is the path after it: "/" alone demands a directory.
func (w *walker) step(name string, rest []string) (target string, err error) {
	dir := w.dirs[len(w.dirs)-1]
	fd, err := openAt(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return "", err
	}
	mode, err := w.look(fd)
	if err == nil && mode&unix.S_IFMT == unix.S_IFLNK {
		defer unix.Close(fd)
		return w.follow(fd, last(rest))
	}
	if err == nil && len(rest) > 0 && mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		unix.Close(fd)
		return "", err
	}
	w.dirs = append(w.dirs, fd)
	return "", nil
}

// follow returns where a link leads.
func (w *walker) follow(link int, last bool) (string, error) {
	if w.links++; w.links > maxLinks || last && w.noLink {
		return "", unix.ELOOP
	}
	return readLink(link)
}

// look checks a file of the path, and returns its type and mode.
func (w *walker) look(fd int) (mode uint32, err error) {
	var st unix.Statx_t
	if w.at, err = look(fd, w.pid, &st, w.at, w.served); err != nil {
		return 0, err
	}
	if w.at.system.remote && !w.patient {
		return 0, &remoteError{w.at.server}
	}
	mode = uint32(st.Mode)
	if w.as != nil && mode&unix.S_IFMT != unix.S_IFLNK && !w.as.may(&st) {
		return 0, unix.EACCES
	}
	return mode, nil
}

// may reports whether a file's mode lets the user read it or, for a directory, look for names
// in it. Access control lists are not consulted.
func (u *User) may(st *unix.Statx_t) bool {
	if u.UID == 0 {
		return true
	}
	need := uint16(0o4)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		need = 0o1
	}
	switch {
	case int(st.Uid) == u.UID:
		need <<= 6
	case int(st.Gid) == u.GID, slices.Contains(u.Groups, st.Gid):
		need <<= 3
	}
	return st.Mode&need != 0
}

// errNotOwn is the error for a file that a convention names as a process's, and that belongs
// to another user.
var errNotOwn = errors.New("belongs to another user than the process")

// remoteError is the error for a file for which somebody has to be asked, who may be late.
type remoteError struct{ server server }

func (e *remoteError) Error() string { return "the file system is remote" }

// OpenFor opens a regular file below a process's root with the rights that the process has for
// files: root reads nothing for another user that this user could not read. Where this process
// may not take the user's rights (CAP_SETUID, CAP_SETGID), the modes on the path decide. It
// looks into no directory, and opens no file, on a file system that CheckServed refuses. It
// waits for a remote file system like OpenInRoot. The caller closes the file.
func OpenFor(u User, pid int, name string) (fs.File, error) {
	return openFor(u, pid, name, false)
}

// OpenOwn is OpenFor for a file that a convention names as the process's own, in a directory
// in which every user can make files: it belongs to the process's user and is no link.
func OpenOwn(u User, pid int, name string) (fs.File, error) {
	return openFor(u, pid, name, true)
}

func openFor(u User, pid int, name string, own bool) (fs.File, error) {
	return openRemote(func(patient bool) (*os.File, error) {
		w := &walker{pid: pid, noLink: own, patient: patient}
		f, err := w.openAs(u, name)
		if err == nil && own {
			f, err = ownedBy(f, u)
		}
		return f, err
	})
}

// openAs opens a regular file with a user's rights.
func (w *walker) openAs(u User, name string) (f *os.File, err error) {
	byMode := *w
	byMode.as = &u
	if !u.isOwn() {
		// Most files that are looked for do not exist: a thread is started for the others only.
		fd, err := byMode.lookup(name)
		switch {
		case err == nil:
			unix.Close(fd)
		case !errors.Is(err, unix.EACCES): // by mode, which access control lists may widen
			return nil, err
		}
	}
	taken := false
	err = As(u, func() (err error) {
		taken = true
		own := *w
		f, err = own.open(name)
		return err
	})
	if !taken {
		byMode := *w
		byMode.as = &u
		return byMode.open(name)
	}
	return f, err
}

// open opens a regular file below the process's root.
func (w *walker) open(name string) (*os.File, error) {
	fd, err := w.lookup(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return reopen(fd, name, false)
}

// lookup resolves a path in the process's root.
func (w *walker) lookup(name string) (int, error) {
	root, err := openRoot(w.pid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return w.lookupBelow(root, name)
}

// lookupBelow resolves a path in the process's root directory, which is open.
func (w *walker) lookupBelow(root int, name string) (int, error) {
	fd, err := w.walk(root, name)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: rootPath(w.pid) + "/" + strings.TrimLeft(name, "/"), Err: err}
	}
	return fd, nil
}

// openRemote opens a file with a function that fails with a *remoteError, if it may not wait,
// where something remote has to be asked. It is then called again in a goroutine of its own.
func openRemote(open func(patient bool) (*os.File, error)) (fs.File, error) {
	f, err := open(false)
	var remote *remoteError
	if !errors.As(err, &remote) {
		if err != nil {
			return nil, err // and no typed nil
		}
		return f, nil
	}
	f, err = ask(remote.server, func() (*os.File, error) { return open(true) },
		func(f *os.File) { f.Close() })
	if err != nil {
		return nil, err
	}
	return &remoteFile{f: f, server: remote.server}, nil
}

// ownedBy returns a file that belongs to a user, or closes it.
func ownedBy(f *os.File, u User) (*os.File, error) {
	var st unix.Stat_t
	err := fstat(int(f.Fd()), &st)
	if err == nil && int(st.Uid) != u.UID {
		err = errNotOwn
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: f.Name(), Err: err}
	}
	return f, nil
}
