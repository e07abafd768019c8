package procfs

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pseudo are the file systems with the kernel's own files. No program or library is on them,
// and reading some takes messages away, waits, or has effects.
var pseudo = map[string]bool{
	"binfmt_misc": true, "bpf": true, "cgroup": true, "cgroup2": true, "configfs": true,
	"debugfs": true, "devpts": true, "efivarfs": true, "fusectl": true, "mqueue": true, "nfsd": true,
	"proc": true, "pstore": true, "resctrl": true, "rpc_pipefs": true, "securityfs": true, "selinuxfs": true,
	"smackfs": true, "sysfs": true, "tracefs": true,
}

// isFUSE reports whether a type is FUSE's: served by a process. virtiofs, served by the
// hypervisor, is not.
func isFUSE(fstype string) bool {
	return fstype == "fuse" || fstype == "fuseblk" || strings.HasPrefix(fstype, "fuse.")
}

// isRemote reports whether another machine, or a process, answers for a file system. Where the
// machine below this one does (virtiofs, 9p by virtio), it can stop this one anyway.
func (e *mountEntry) isRemote() bool {
	switch e.fstype {
	case "afs", "ceph", "cifs", "coda", "lustre", "nfs", "nfs4", "smb3":
		return true
	case "9p":
		return e.option("trans") != "virtio"
	}
	return isFUSE(e.fstype)
}

// CheckServed returns a *ServedError for a file that must not be read on behalf of a process:
// on FUSE, unless root of this user namespace or this process's user serves it; on an overlay
// that is mounted in a user namespace below this one, whose layers may be anything; on a file
// system of the kernel's own; and on one whose mount no mount table shows. pid is the process
// in whose mount namespace the file was found, or this process. fd may only identify the file
// (O_PATH). No file system is asked for anything that it could answer late.
func CheckServed(fd, pid int) error {
	_, err := mountOf(fd, pid, false)
	return err
}

// CheckAttachable is CheckServed for a file that the kernel itself is to read, which must not
// wait for a process of root's either.
func CheckAttachable(fd, pid int) error {
	m, err := mountOf(fd, pid, false)
	if err == nil && isFUSE(m.system.fstype) {
		err = &ServedError{
			m.system.fstype,
			"a process serves it (FUSE), which may keep the whole machine waiting",
		}
	}
	return err
}

// mount identifies the mount of a file.
type mount struct {
	id     uint64 // in mount tables, or unique
	unique bool   // id belongs to no other mount until the machine ends
	server        // the file's device
}

// fileSystem is what is known of the file system of a mount.
type fileSystem struct {
	fstype string // "" if no table was asked for it
	dev    string // in mount tables
	remote bool
	why    string // it must not be read; "" if it may
	never  bool   // nobody can allow to read it
}

// refused returns the error for a file that must not be read. served allows what somebody may
// serve.
func (s *fileSystem) refused(served bool) error {
	if s.why == "" || served && !s.never {
		return nil
	}
	return &ServedError{s.fstype, s.why}
}

// found is a mount and its file system.
type found struct {
	mount
	system fileSystem
}

// mountOf returns a file's mount, which it checks.
func mountOf(fd, pid int, served bool) (found, error) {
	var st unix.Statx_t
	return look(fd, pid, &st, found{}, served)
}

// look describes a file by what the kernel knows, and returns its mount, which it checks
// (fileSystem.refused) unless that is known, the one that was found before.
func look(fd, pid int, st *unix.Statx_t, known found, served bool) (found, error) {
	m, err := statx(fd, st)
	switch {
	case err == nil && m == known.mount:
		return known, nil
	case m == mount{}:
		return found{}, err
	}
	s, serr := m.find(fd, pid)
	if serr == nil {
		serr = s.refused(served)
	}
	return found{m, s}, cmp.Or(serr, err) // FUSE refuses to describe other users' files
}

// statx describes a file without asking its file system. The mount is not known if it is
// empty; it may be known with an error.
func statx(fd int, st *unix.Statx_t) (mount, error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	const id = unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE // since Linux 5.8 and 6.8
	err := again(func() error { return unix.Statx(fd, "", flags, unix.STATX_BASIC_STATS|id, st) })
	if err == nil && st.Mask&id != 0 {
		unique := st.Mask&unix.STATX_MNT_ID_UNIQUE != 0
		return mount{st.Mnt_id, unique, server{st.Dev_major, st.Dev_minor}}, nil
	}
	n, ierr := mountID(fd)
	if ierr != nil {
		return mount{}, errors.Join(err, ierr)
	}
	if err != nil {
		return mount{id: n}, os.NewSyscallError("statx", err)
	}
	return mount{n, false, server{st.Dev_major, st.Dev_minor}}, nil
}

// mountID returns the id of a descriptor's mount from /proc/self/fdinfo.
func mountID(fd int) (uint64, error) {
	b, err := os.ReadFile("/proc/thread-self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:\t"); ok {
			return strconv.ParseUint(strings.TrimSpace(id), 10, 64)
		}
	}
	return 0, fmt.Errorf("fdinfo of %d has no mnt_id", fd)
}

// onDisk reports whether the file's data is on a block device. Only root of the machine mounts
// file systems of those.
func (s server) onDisk() bool { return s.major != 0 }

// systems has the file systems of mounts with unique ids, whose tables are long.
var systems struct {
	sync.Mutex
	of map[mount]fileSystem
}

// maxSystems bounds how many mounts are remembered.
const maxSystems = 4096

// find returns the file system of the mount, which fd is on.
func (m mount) find(fd, pid int) (s fileSystem, err error) {
	if m.onDisk() {
		return fileSystem{}, nil
	}
	if !m.unique {
		return m.read(fd, pid)
	}
	systems.Lock()
	s, ok := systems.of[m]
	systems.Unlock()
	if ok {
		return s, nil
	}
	if s, err = m.read(fd, pid); err != nil || s.fstype == "" {
		return s, err
	}
	systems.Lock()
	defer systems.Unlock()
	if len(systems.of) >= maxSystems {
		clear(systems.of)
	}
	if systems.of == nil {
		systems.of = make(map[mount]fileSystem)
	}
	systems.of[m] = s
	return s, nil
}

// read reads the file system from mount tables.
func (m mount) read(fd, pid int) (s fileSystem, err error) {
	id := m.id
	if m.unique { // tables have the other one
		if id, err = mountID(fd); err != nil {
			return s, err
		}
	}
	e, trusted, err := findID(id, strconv.Itoa(pid))
	if err != nil {
		return s, err
	}
	if e == nil {
		if !m.inMemory() {
			s.why, s.remote = "unknown, since no mount table shows its mount", true
		}
		return s, nil
	}
	s = fileSystem{fstype: e.fstype, dev: e.dev, remote: e.isRemote()}
	switch {
	case pseudo[e.fstype]:
		s.why, s.never = "its files are the kernel's own", true
	case isFUSE(e.fstype) && !(trusted && ownOrRoots(e.option("user_id"))):
		s.why = "a process serves it (FUSE), and not one of root's"
	case e.fstype == "overlay" && !trusted:
		s.why, s.remote = "mounted in a user namespace, where a process may serve its layers (FUSE)", true
	}
	return s, nil
}

// ownOrRoots reports whether a user, as in a mount table, is root or this process's.
func ownOrRoots(user string) bool { return user == "0" || user == strconv.Itoa(os.Geteuid()) }

// inMemory reports whether the file is a memfd or System V shared memory: these are on a mount
// of the kernel's, which is in no table.
func (m mount) inMemory() bool {
	fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	own, err := statx(fd, &st)
	return err == nil && own == m
}

// findID looks for a mount in the table of a process, and in those of this process and of the
// first one. It returns nil if it is in none. trusted reports whether only root of this user
// namespace, or of one above it, can have mounted the file system: it is mounted in a mount
// namespace of this user namespace too.
func findID(id uint64, process string) (e *mountEntry, trusted bool, err error) {
	tables := []string{process, "self", "1"}
	for i := 0; i < len(tables) && e == nil; i++ {
		process = tables[i]
		e, err = findMount(process, func(e *mountEntry) bool { return e.id == id })
	}
	if e == nil {
		return nil, false, err
	}
	if trustsMounts(process) {
		return e, true, nil
	}
	for _, process := range tables[1:] {
		if !trustsMounts(process) {
			continue
		}
		if t, _ := findMount(process, func(t *mountEntry) bool { return t.dev == e.dev }); t != nil {
			return t, true, nil
		}
	}
	return e, false, nil
}

// trustsMounts reports whether a process's mount namespace belongs to this process's user
// namespace (namespaces(7), NS_GET_USERNS).
func trustsMounts(process string) bool {
	mnt, err := unix.Open("/proc/"+process+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(mnt)
	user, err := unix.IoctlRetInt(mnt, unix.NS_GET_USERNS)
	if err != nil {
		return false
	}
	defer unix.Close(user)
	var its, own unix.Stat_t
	return unix.Fstat(user, &its) == nil && unix.Stat("/proc/self/ns/user", &own) == nil &&
		its.Ino == own.Ino
}

// mountEntry is a line of /proc/PID/mountinfo: proc_pid_mountinfo(5).
type mountEntry struct {
	id      uint64
	dev     string
	fstype  string
	options string // the file system's own
}

// option returns the value of a file system's option, "" if it is not set.
func (e *mountEntry) option(name string) string {
	for o := range strings.SplitSeq(e.options, ",") {
		if value, ok := strings.CutPrefix(o, name+"="); ok {
			return value
		}
	}
	return ""
}

// maxMountTable bounds what is read of a mount table, in bytes. A user may have 100,000 mounts
// in namespaces of their own (fs.mount-max).
const maxMountTable = 4 << 20

// findMount returns the first entry that is wanted in a process's mount table, nil if there is
// none.
func findMount(process string, wanted func(*mountEntry) bool) (*mountEntry, error) {
	f, err := os.Open("/proc/" + process + "/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sc := bufio.NewScanner(io.LimitReader(f, maxMountTable))
	sc.Buffer(nil, 64<<10)
	for sc.Scan() {
		if e, ok := parseMount(sc.Text()); ok && wanted(&e) {
			return &e, nil
		}
	}
	return nil, sc.Err()
}

// parseMount parses a line: "36 35 98:0 /root /mnt rw master:1 - ext3 /dev/root rw,errors".
// The kernel writes blanks in names as "\040".
func parseMount(line string) (e mountEntry, ok bool) {
	of, fs, ok := strings.Cut(line, " - ")
	f, g := strings.Fields(of), strings.Fields(fs)
	if !ok || len(f) < 6 || len(g) < 2 {
		return e, false
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return e, false
	}
	return mountEntry{id, f[2], g[0], g[len(g)-1]}, true
}
