package cgroups

import (
	"os"
	"path"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// Group is a control group of version 2.
type Group struct {
	// ID is the cgroup's id, the inode of its directory.
	ID uint64 `json:"id"`
	// Level is its depth: 0 for the root, -1 if the mount does not show it.
	Level int `json:"level"`
	// Path is its path below the mount point, which begins with a slash.
	Path string `json:"path"`
}

// cgroup2Mounts lists the directories where version 2 of control groups is mounted.
var cgroup2Mounts = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}

// Find finds a control group of version 2 by its path. The error matches fs.ErrNotExist if
// there is none, and errors.ErrUnsupported if version 2 is not mounted.
func Find(e *env.Env, name string) (Group, error) {
	clean := path.Clean("/" + name)
	mounted := false
	for _, mount := range cgroup2Mounts {
		if _, err := userfile.Stat(e, mount+"/cgroup.controllers"); err != nil && !isCgroup2(e, mount) {
			continue
		}
		mounted = true
		rel := strings.TrimPrefix(clean, "/"+mount)
		id, err := IDOf(e, strings.TrimSuffix(mount+path.Clean("/"+rel), "/"))
		if err != nil {
			continue
		}
		c := Group{ID: id.Inode, Level: -1, Path: path.Clean("/" + rel)}
		// The hierarchy's root has inode 1. A container may see part of the hierarchy as its
		// root. The depth is then unknown.
		if root, err := IDOf(e, mount); err == nil && root.Inode == 1 {
			c.Level = len(strings.FieldsFunc(rel, func(r rune) bool { return r == '/' }))
		}
		return c, nil
	}
	if !mounted {
		return Group{}, &feature.UnsupportedError{
			Feature: "filter by cgroup", Hint: "control groups of version 2 are not mounted on /" +
				strings.Join(cgroup2Mounts, " or /"),
		}
	}
	return Group{}, notexist.Errorf("no cgroup %s of version 2", clean)
}

// isCgroup2 reports whether a mount without cgroup.controllers is of version 2, as the root of
// a hierarchy without controllers is.
func isCgroup2(e *env.Env, mount string) bool {
	_, err := userfile.Stat(e, mount+"/cgroup.procs")
	if err != nil {
		return false
	}
	_, err = userfile.Stat(e, mount+"/tasks") // only version 1 has tasks
	return err != nil
}

// perfMounts lists the directories where the hierarchy that perf uses is mounted: version 2,
// or the perf_event controller of version 1.
var perfMounts = []string{"/sys/fs/cgroup/perf_event", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"}

// Open opens the directory of a control group for perf events. The caller closes it.
func Open(name string) (*os.File, error) {
	for _, mount := range perfMounts {
		dir := path.Join(mount, path.Clean("/"+name))
		if _, err := os.Stat(dir + "/cgroup.procs"); err != nil {
			continue
		}
		return os.Open(dir)
	}
	return nil, notexist.Errorf("no cgroup %s below %s", name, strings.Join(perfMounts, ", "))
}
