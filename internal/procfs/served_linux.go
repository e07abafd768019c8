package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

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

// CheckServed returns a *ServedError for a file that must not be read on behalf of a process:
// on FUSE, unless root of this user namespace or this process's user serves it; on an overlay
// that is mounted in a user namespace below this one, whose layers may be anything; on a file
// system of the kernel's own; and on one whose mount no mount table shows. pid is the process
// in whose mount namespace the file was found, or this process. fd may only identify the file
// (O_PATH). No file system is asked for anything that it could answer late.
func CheckServed(fd, pid int) error {
	_, err := checkFile(fd, pid)
	return err
}

// CheckAttachable is CheckServed for a file that the kernel itself is to read, which must not
// wait for a process of root's either.
func CheckAttachable(fd, pid int) error {
	fstype, err := checkFile(fd, pid)
	if err == nil && isFUSE(fstype) {
		err = &ServedError{fstype, "a process serves it (FUSE), which may keep the whole machine waiting"}
	}
	return err
}

func checkFile(fd, pid int) (fstype string, err error) {
	m, err := mountOf(fd, pid)
	if err != nil {
		return "", err
	}
	return m.check(pid)
}

// mount identifies the mount of a file.
type mount struct {
	id           uint64 // in mount tables
	major, minor uint32 // the file's device
}

// mountOf returns a file's mount.
func mountOf(fd, pid int) (mount, error) {
	var st unix.Statx_t
	if err := statx(fd, pid, &st); err != nil {
		return mount{}, err
	}
	return mountIn(&st), nil
}

// statx describes a file by what the kernel knows, without asking the file system. FUSE
// refuses to describe the files of another user's; the error is then CheckServed's for its
// mount.
func statx(fd, pid int, st *unix.Statx_t) error {
	const flags = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	err := unix.Statx(fd, "", flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, st)
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 { // since Linux 5.8
		return nil
	}
	id, ierr := mountID(fd)
	if ierr != nil {
		return errors.Join(err, ierr)
	}
	if err == nil {
		st.Mnt_id = id
		return nil
	}
	if _, cerr := (mount{id: id}).check(pid); cerr != nil {
		return cerr
	}
	return os.NewSyscallError("statx", err)
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

func mountIn(st *unix.Statx_t) mount {
	return mount{st.Mnt_id, st.Dev_major, st.Dev_minor}
}

// onDisk reports whether the file's data is on a block device. Only root of the machine mounts
// file systems of those.
func (m mount) onDisk() bool { return m.major != 0 }

// check is CheckServed. It returns the file system's type, "" for one that no table is asked
// for.
func (m mount) check(pid int) (fstype string, err error) {
	if m.onDisk() {
		return "", nil
	}
	e, trusted, err := m.find(strconv.Itoa(pid))
	if err != nil {
		return "", err
	}
	if e == nil {
		if m.inMemory() {
			return "", nil
		}
		return "", &ServedError{"", "no mount table shows its mount"}
	}
	why := ""
	switch {
	case pseudo[e.fstype]:
		why = "its files are the kernel's own"
	case isFUSE(e.fstype) && !(trusted && ownOrRoots(e.option("user_id"))):
		why = "a process serves it (FUSE), and not one of root's"
	case e.fstype == "overlay" && !trusted:
		why = "mounted in a user namespace, where a process may serve its layers (FUSE)"
	}
	if why != "" {
		return e.fstype, &ServedError{e.fstype, why}
	}
	return e.fstype, nil
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
	own, err := mountOf(fd, os.Getpid())
	return err == nil && own == m
}

// find looks for the mount in the table of a process, and in those of this process and of the
// first one. It returns nil if it is in none. trusted reports whether only root of this user
// namespace, or of one above it, can have mounted the file system: it is mounted in a mount
// namespace of this user namespace too.
func (m mount) find(process string) (e *mountEntry, trusted bool, err error) {
	tables := []string{process, "self", "1"}
	for i := 0; i < len(tables) && e == nil; i++ {
		process = tables[i]
		e, err = findMount(process, func(e *mountEntry) bool { return e.id == m.id })
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
