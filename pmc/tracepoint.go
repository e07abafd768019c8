package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/notexist"
)

// tracefsDirs are where tracefs is mounted: by itself, or inside debugfs.
var tracefsDirs = [...]string{"sys/kernel/tracing", "sys/kernel/debug/tracing"}

// Tracepoint returns the event of a kernel tracepoint: its id is read from
// tracefs under opts.Root. The error matches fs.ErrNotExist if there is no such
// tracepoint, and fs.ErrPermission if tracefs can't be read; where tracefs is
// not mounted it says so.
func Tracepoint(group, name string, opts *Options) (Event, error) {
	fsys := rootOf(opts)
	if !validPMUName(group) || !validPMUName(name) {
		return Event{}, notexist.Errorf("no tracepoint %.60q", group+":"+name)
	}
	dir, err := tracefs(fsys)
	if err != nil {
		return Event{}, fmt.Errorf("tracepoint %s:%s: %w", group, name, err)
	}
	b, err := readSmall(fsys, path.Join(dir, "events", group, name, "id"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Event{}, noTracepoint(fsys, path.Join(dir, "events"), group, name)
		}
		return Event{}, fmt.Errorf("tracepoint %s:%s: %w", group, name, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return Event{}, fmt.Errorf("tracepoint %s:%s: bad id %.20q", group, name, b)
	}
	return Event{Name: group + ":" + name, Type: TypeTracepoint, Config: id}, nil
}

// noTracepoint says that there is none of the name, with the nearest ones.
func noTracepoint(fsys fs.FS, dir, group, name string) error {
	var known []string
	if entries, err := fs.ReadDir(fsys, path.Join(dir, group)); err == nil {
		for _, e := range entries {
			known = append(known, e.Name())
		}
		if near := nearest(name, known); len(near) > 0 {
			return notexist.Errorf("no tracepoint %q in group %s; did you mean %s?", name, group, strings.Join(near, ", "))
		}
		return notexist.Errorf("no tracepoint %q in group %s", name, group)
	}
	entries, _ := fs.ReadDir(fsys, dir)
	for _, e := range entries {
		known = append(known, e.Name())
	}
	if near := nearest(group, known); len(near) > 0 {
		return notexist.Errorf("no tracepoint group %q; did you mean %s?", group, strings.Join(near, ", "))
	}
	return notexist.Errorf("no tracepoint group %q", group)
}

// tracefs finds where tracefs is mounted.
func tracefs(fsys fs.FS) (string, error) {
	var denied error
	for _, dir := range tracefsDirs {
		_, err := fs.Stat(fsys, dir+"/events")
		if err == nil {
			return dir, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", fmt.Errorf("tracefs is for root (CAP_DAC_READ_SEARCH): %w", denied)
	}
	return "", notexist.Error("tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)")
}

// tracepoints resolves a tracepoint, or those that a wildcard matches.
func (p *parser) tracepoints(group, name string) ([]Event, error) {
	opts := &Options{Root: p.fsys}
	if !strings.ContainsAny(group+name, "*?[") {
		e, err := Tracepoint(group, name, opts)
		return []Event{e}, err
	}
	dir, err := tracefs(p.fsys)
	if err != nil {
		return nil, err
	}
	matches, err := fs.Glob(p.fsys, path.Join(dir, "events", group, name, "id"))
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q: %w", group+":"+name, err)
	}
	var out []Event
	for _, m := range matches {
		parts := strings.Split(m, "/")
		e, err := Tracepoint(parts[len(parts)-3], parts[len(parts)-2], opts)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil, notexist.Errorf("no tracepoint matches %.60q", group+":"+name)
	}
	return out, nil
}
