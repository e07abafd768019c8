package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confined runs a command in this process, which was started for it by confinement.wrap, and
// returns its exit code. It adds a line to the confinement's report for each thing that the
// command left, and ends the processes among them.
func confined(argv []string) (int, error) {
	var c confinedAs
	if err := json.Unmarshal([]byte(argv[0]), &c); err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopt orphans: %w", err)
	}
	if err := c.setUp(); err != nil {
		return 0, err
	}
	path, err := exec.LookPath(argv[1])
	if err != nil {
		return 0, err
	}
	before := c.left()
	o := observe()
	code, err := runChild(path, argv[1:])
	o.end()
	stays := c.waitGone(before, o)
	endProcesses()
	return code, errors.Join(err, c.write(stays))
}

// runChild runs a command and returns its exit code. Meanwhile it buries the orphans that
// became children of this process.
func runChild(path string, argv []string) (int, error) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, err
	}
	go func() {
		for range interrupts {
			_ = p.Signal(os.Interrupt)
		}
	}()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && pid != p.Pid:
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		default:
			return status.ExitStatus(), nil
		}
	}
}

// waitGone returns what was not there before and stays.
func (c *confinedAs) waitGone(before map[string]bool, o *observer) map[string]bool {
	for end := time.Now().Add(c.Patience); ; time.Sleep(50 * time.Millisecond) {
		for { // bury orphans that have ended
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		stays := c.left()
		maps.Copy(stays, o.left())
		maps.DeleteFunc(stays, func(what string, _ bool) bool { return before[what] })
		if len(stays) == 0 || time.Now().After(end) {
			return stays
		}
	}
}

// endProcesses kills the descendants of this process, which have no other parent to go to.
func endProcesses() {
	for {
		ps := descendants()
		if len(ps) == 0 {
			return
		}
		for _, p := range ps {
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// write adds lines to the report.
func (c *confinedAs) write(lines map[string]bool) error {
	if len(lines) == 0 {
		return nil
	}
	f, err := os.OpenFile(c.report(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n")
	return errors.Join(err, f.Close())
}

// setUp makes this process's mounts.
func (c *confinedAs) setUp() error {
	if !c.Isolated {
		return nil
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// These stay accessible if they are in a directory for temporary files.
	kept := append([]string{filepath.Dir(self), cwd}, c.Writable...)
	for _, dir := range temporary {
		if err := c.replace(dir, kept); err != nil {
			return err
		}
	}
	if err := mountIfThere("tmpfs", "/dev/shm", "mode=1777"); err != nil {
		return err
	}
	for _, dir := range append([]string{"/proc/sys"}, c.Writable...) {
		if err := bind(dir, dir); err != nil {
			return err
		}
	}
	if c.Group != "" {
		// The root of what the command sees. It can't be mounted on itself again.
		if err := bind(c.Group, filepath.Dir(c.Group)); err != nil {
			return err
		}
	}
	for _, m := range mountTable() {
		switch {
		case m.fstype == "bpf":
			if err := mountIfThere(m.fstype, m.dir, ""); err != nil {
				return err
			}
		case c.readOnly(m):
			if err := remountReadOnly(m.dir); err != nil {
				return err
			}
		}
	}
	return os.Chdir(cwd) // the directory in its new mount
}

// replace mounts an empty directory on one for temporary files, with those in it that are
// kept.
func (c *confinedAs) replace(dir string, kept []string) error {
	instead := c.instead(dir)
	for _, path := range kept {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if err := os.MkdirAll(filepath.Join(instead, rel), 0o755); err != nil {
			return err
		}
		if err := bind(path, filepath.Join(instead, rel)); err != nil {
			return err
		}
	}
	return bind(instead, dir)
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", from, to, err)
	}
	return nil
}

// mountIfThere mounts a file system if the directory exists.
func mountIfThere(fstype, dir, options string) error {
	if err := unix.Mount(fstype, dir, fstype, 0, options); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("mount %s on %s: %w", fstype, dir, err)
	}
	return nil
}

// readOnly reports whether commands may not write to a mount: all but their own, and the
// kernel's in which they attach things.
func (c *confinedAs) readOnly(m mounted) bool {
	if m.dir == "/proc/sys" {
		return true
	}
	switch m.fstype {
	case "proc", "cgroup", "cgroup2", "bpf", "tracefs", "debugfs", "devtmpfs", "devpts",
		"mqueue", "hugetlbfs":
		return false
	}
	for _, own := range slices.Concat(c.Writable, temporary, []string{"/dev"}) {
		if rel, err := filepath.Rel(own, m.dir); err == nil && filepath.IsLocal(rel) {
			return false
		}
	}
	return true
}

// remountReadOnly changes this namespace's mount, not the file system.
func remountReadOnly(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil // it is not accessible: another one covers it
	}
	// The flags that are not given would be cleared; statfs has the same values for these.
	const same = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	keep := uintptr(st.Flags) & same
	err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|keep, "")
	if err != nil {
		return fmt.Errorf("make %s read-only: %w", dir, err)
	}
	return nil
}

// left returns all that commands can leave in the confinement, and events in tracefs, which
// is the whole machine's, by the name of this library's group.
func (c *confinedAs) left() map[string]bool {
	all := map[string]bool{}
	add := func(kind, what string) { all[kind+" "+what] = true }
	files := func(dir string) {
		es, _ := os.ReadDir(dir)
		for _, e := range es {
			add("file", filepath.Join(dir, e.Name()))
		}
	}
	files(c.tmp())
	addEvents(add)
	if !c.Isolated {
		return all
	}
	for _, dir := range append([]string{"/dev/shm"}, temporary...) {
		files(dir)
	}
	for _, kind := range []string{"msg", "sem", "shm"} {
		b, _ := os.ReadFile("/proc/sysvipc/" + kind)
		for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			if i > 0 {
				add("SysV "+kind, strings.Join(strings.Fields(line), " "))
			}
		}
	}
	for _, m := range mountTable() {
		if m.fstype == "tracefs" && strings.HasSuffix(m.dir, "/debug/tracing") {
			continue // it is mounted automatically when accessed
		}
		add("mount", m.fstype+" on "+m.dir)
		switch {
		case m.fstype == "bpf":
			walk(m.dir, func(path string, _ fs.DirEntry) { add("pin", path) })
		case m.fstype == "cgroup2" && c.Group != "":
			walk(m.dir, func(path string, d fs.DirEntry) {
				if d.IsDir() {
					add("cgroup", path)
				}
			})
			b, _ := os.ReadFile(m.dir + "/cgroup.subtree_control")
			add("cgroup.subtree_control", strings.TrimSpace(string(b)))
		}
	}
	return all
}

type mounted struct{ dir, fstype string }

func mountTable() []mounted {
	b, _ := os.ReadFile("/proc/self/mounts")
	var ms []mounted
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 {
			ms = append(ms, mounted{f[1], f[2]})
		}
	}
	return ms
}

// walk visits everything below dir. It skips files that disappear meanwhile.
func walk(dir string, visit func(string, fs.DirEntry)) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir {
			visit(path, d)
		}
		return nil
	})
}
