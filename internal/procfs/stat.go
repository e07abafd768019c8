package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Root returns root or, if it is nil, this machine's root.
func Root(root fs.FS) fs.FS {
	if root == nil {
		return DirFS("/")
	}
	return root
}

// Dir returns /proc/PID.
func Dir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// path returns proc/PID/name.
func path(pid int, name string) string {
	b := make([]byte, 0, 48)
	b = append(b, "proc/"...)
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(b, '/')
	return string(append(b, name...))
}

// maxSmall bounds the size of the small files of /proc/PID.
const maxSmall = 1 << 16

func readSmall(root fs.FS, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// Stat contains fields of the stat file of a process or a thread.
type Stat struct {
	// Comm is the thread's name, at most 15 bytes.
	Comm string
	// State is the state's letter. 'Z' is a process that has ended and was not waited for.
	State byte
	// PPID is the parent's pid.
	PPID int
	// StartTime is field 22, in clock ticks (ClockTick) after boot. Together with the pid it identifies a
	// process, even if the pid is reused.
	StartTime uint64
	// Ran is the CPU time, fields 14 and 15 together, in clock ticks.
	Ran uint64
	// Threads is the number of threads, field 20, with a first one that ended before the others.
	Threads int
}

// ClockTick is a clock tick of /proc in nanoseconds: USER_HZ is 100 on all machines.
const ClockTick = 10_000_000

// ReadStat reads /proc/PID/stat.
func ReadStat(root fs.FS, pid int) (Stat, error) { return readStat(root, path(pid, "stat")) }

// ReadThreadStat reads /proc/PID/task/TID/stat. Its CPU time is the thread's own.
func ReadThreadStat(root fs.FS, pid, tid int) (Stat, error) {
	return readStat(root, path(pid, "task/"+strconv.Itoa(tid)+"/stat"))
}

func readStat(root fs.FS, name string) (Stat, error) {
	b, err := readSmall(root, name)
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(b)
}

var errStat = errors.New("malformed stat")

// ParseStat parses the contents of /proc/PID/stat. The name may contain spaces and
// parentheses, so the fields are counted from its last ")".
func ParseStat(b []byte) (Stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Stat{}, errStat
	}
	s := Stat{Comm: string(b[open+1 : end])}
	fields := strings.Fields(string(b[end+1:]))
	const first, startTime = 3, 22 // fields[0] is field 3
	if len(fields) <= startTime-first || len(fields[0]) != 1 {
		return Stat{}, errStat
	}
	s.State = fields[0][0]
	var n [5]uint64
	for i, field := range []int{4, 14, 15, startTime, 20} {
		var err error
		if n[i], err = strconv.ParseUint(fields[field-first], 10, 64); err != nil {
			return Stat{}, fmt.Errorf("%w: field %d is %q", errStat, field, fields[field-first])
		}
	}
	s.PPID, s.Ran, s.StartTime, s.Threads = int(n[0]), n[1]+n[2], n[3], int(n[4])
	return s, nil
}

// NSpid returns the process's id in its own, innermost pid namespace: /proc/PID/status,
// "NSpid", since Linux 4.1. It returns pid if the line is missing.
func NSpid(root fs.FS, pid int) int {
	f := statusField(root, pid, "NSpid")
	if len(f) == 0 {
		return pid
	}
	if n, err := strconv.Atoi(f[len(f)-1]); err == nil && n > 0 {
		return n
	}
	return pid
}

// UIDs returns the process's real, effective, saved and file system users: /proc/PID/status,
// "Uid". It returns none if they are not known.
func UIDs(root fs.FS, pid int) []int { return numbers(statusField(root, pid, "Uid")) }

// User is whose rights a process has for files.
type User struct {
	UID, GID int      // those for the file system: setfsuid(2)
	Groups   []uint32 // supplementary
}

// Anybody is a user that is not known: it reads what everybody may read.
var Anybody = User{UID: -1, GID: -1}

// UserOf returns a process's user: /proc/PID/status, which unlike the owner of that directory
// also contains it for processes that are not dumpable.
func UserOf(root fs.FS, pid int) (u User, err error) {
	var users, groups []int
	eachField(root, pid, func(key, values string) {
		switch key {
		case "Uid":
			users = numbers(strings.Fields(values))
		case "Gid":
			groups = numbers(strings.Fields(values))
		case "Groups":
			for _, g := range numbers(strings.Fields(values)) {
				u.Groups = append(u.Groups, uint32(g))
			}
		}
	})
	if len(users) != 4 || len(groups) != 4 {
		return User{}, fmt.Errorf("the user of process %d is not known", pid)
	}
	u.UID, u.GID = users[3], groups[3]
	return u, nil
}

// Unprivileged returns an error if the process's real user or group is not the one whose
// rights it has, as after executing a setuid file.
func Unprivileged(root fs.FS, pid int) (err error) {
	eachField(root, pid, func(key, values string) {
		f := strings.Fields(values) // real, effective, saved, of the file system
		if (key == "Uid" || key == "Gid") && len(f) == 4 && f[0] != f[1] {
			err = fmt.Errorf("process %d: its real and effective %s are %s and %s", pid, key, f[0], f[1])
		}
	})
	return err
}

func numbers(values []string) (list []int) {
	for _, v := range values {
		if n, err := strconv.Atoi(v); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// statusField returns the values of a line of /proc/PID/status, nil if there is no such line.
func statusField(root fs.FS, pid int, key string) (values []string) {
	eachField(root, pid, func(k, v string) {
		if k == key {
			values = strings.Fields(v)
		}
	})
	return values
}

// eachField calls f for the lines of /proc/PID/status: "Uid", and its values.
func eachField(root fs.FS, pid int, f func(key, values string)) {
	b, err := readSmall(root, path(pid, "status"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if key, values, ok := strings.Cut(line, ":"); ok {
			f(key, values)
		}
	}
}

// PIDs returns the processes in root, in ascending order of their pids as text. It skips
// entries that are not numbers.
func PIDs(root fs.FS) ([]int, error) {
	list, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range list {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 {
			pids = append(pids, n)
		}
	}
	return pids, nil
}
