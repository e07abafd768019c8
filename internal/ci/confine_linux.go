package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
)

// confineFlag makes this program run a command confined, and report what that leaves.
const confineFlag = "-confined"

// A confinement separates what a step's commands change from what others change on this
// machine meanwhile.
//
// A command's orphans become children of the process that confines it, wherever they go. As
// root, a command also has namespaces of its own: of mounts, with empty directories for
// temporary files, an empty bpffs, and nearly everything else read-only; of IPC; and of
// control groups, in a group of its own. All of these have to be empty when it has ended.
type confinement struct {
	confinedAs
	group *os.File // Group, nil if there is none
}

// confinedAs is what the process that confines a command has to know.
type confinedAs struct {
	Dir      string   // has all that belongs to the confinement
	Writable []string // directories that commands may write, besides those for temporary files
	Patience time.Duration
	Isolated bool   // has namespaces
	Group    string // the directory of its control group, "" if there is none
}

// confine returns a confinement with a new directory below tmp.
func confine(tmp string, patience time.Duration, writable []string) (*confinement, error) {
	c := &confinement{confinedAs: confinedAs{
		Patience: patience,
		Isolated: os.Geteuid() == 0 && len(feature.MissingCaps(feature.CapSysAdmin)) == 0,
	}}
	var err error
	for _, dir := range append([]string{tmp}, writable...) {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
		abs, aerr := filepath.Abs(dir)
		abs, lerr := filepath.EvalSymlinks(abs)
		err = errors.Join(err, aerr, lerr)
		c.Writable = append(c.Writable, abs)
	}
	if err != nil {
		return nil, err
	}
	if c.Dir, err = os.MkdirTemp(tmp, "confined"); err != nil {
		return nil, err
	}
	dirs := []string{filepath.Join(c.Dir, "tmp")}
	for _, dir := range temporary {
		dirs = append(dirs, c.instead(dir))
	}
	err = os.Chmod(c.Dir, 0o755)
	for _, dir := range dirs {
		err = errors.Join(err, os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o777|os.ModeSticky))
	}
	if err == nil && c.Isolated {
		err = c.makeGroup()
	}
	return c, err
}

// makeGroup makes the control group. It makes none where the file system is missing or
// read-only, as in most containers, in which no test can make one either.
func (c *confinement) makeGroup() (err error) {
	name := "borescope-" + filepath.Base(filepath.Dir(c.Dir)) + "-" + filepath.Base(c.Dir)
	for _, m := range mountTable() {
		group := filepath.Join(m.dir, name)
		if m.fstype == "cgroup2" && os.Mkdir(group, 0o755) == nil {
			c.Group = group
			c.group, err = os.Open(group)
			return err
		}
	}
	return nil
}

// temporary are the directories for temporary files.
var temporary = []string{"/tmp", "/var/tmp"}

// tmp is TMPDIR.
func (c *confinedAs) tmp() string {
	if c.Isolated {
		return temporary[0]
	}
	return filepath.Join(c.Dir, "tmp")
}

// instead is the directory that isolated commands have in place of one of temporary.
func (c *confinedAs) instead(dir string) string { return filepath.Join(c.Dir, "instead", dir) }

// report is the file with a line for each thing that was left.
func (c *confinedAs) report() string { return filepath.Join(c.Dir, "left") }

// wrap makes a command that was not started run confined.
func (c *confinement) wrap(cmd *exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	as, err := json.Marshal(c.confinedAs)
	if err != nil {
		return err
	}
	cmd.Args = append([]string{self, confineFlag, string(as)}, cmd.Args...)
	cmd.Path = self
	cmd.Env = append(cmd.Env, "TMPDIR="+c.tmp())
	if c.Isolated {
		// Package syscall makes the new namespace's mounts private.
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	}
	if c.group != nil {
		cmd.SysProcAttr.Unshareflags |= unix.CLONE_NEWCGROUP
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(c.group.Fd())
	}
	return nil
}

// end removes the confinement, and returns an error with all that was left in it.
func (c *confinement) end() error {
	b, err := os.ReadFile(c.report())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if len(b) > 0 {
		err = errors.Join(err, fmt.Errorf("left on this machine:\n%s", b))
	}
	if c.group != nil {
		err = errors.Join(err, c.removeGroup())
	}
	return errors.Join(err, os.RemoveAll(c.Dir))
}

// removeGroup removes the control group and, if the process that confined a command was
// killed, the groups and processes in it.
func (c *confinement) removeGroup() error {
	defer c.group.Close()
	_ = os.WriteFile(filepath.Join(c.Group, "cgroup.kill"), []byte("1"), 0) // since Linux 5.14
	var err error
	for range 100 { // killed processes take a moment to end
		walk(c.Group, func(path string, d fs.DirEntry) {
			if d.IsDir() {
				defer os.Remove(path)
			}
		})
		if err = os.Remove(c.Group); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
