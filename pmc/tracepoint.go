package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/tracefs"
)

// Tracepoint returns the event of a kernel tracepoint. Its id is read from tracefs under
// opts.Root. On this machine, if tracefs isn't mounted, it is read from a private mount
// (Linux 5.2, CAP_SYS_ADMIN). The error matches fs.ErrNotExist if there is no such tracepoint
// or no tracefs, and fs.ErrPermission if it can't be read.
func Tracepoint(group, name string, opts *Options) (Event, error) {
	if !validPMUName(group) || !validPMUName(name) {
		return Event{}, notexist.Errorf("no tracepoint %.60q", group+":"+name)
	}
	dir, err := findTracefs(opts)
	if err != nil {
		return Event{}, fmt.Errorf("tracepoint %s:%s: %w", group, name, err)
	}
	defer dir.Close()
	return tracepointIn(rootOf(opts), dir.Path, group, name)
}

// findTracefs opens tracefs under opts.Root. The caller closes it.
func findTracefs(opts *Options) (*tracefs.Dir, error) {
	dir, err := tracefs.Find(rootOf(opts), opts == nil || opts.Root == nil)
	if err != nil {
		return nil, fmt.Errorf("tracefs: %w", err)
	}
	return dir, nil
}

// tracepointIn returns the event of a tracepoint whose id is in a tracefs.
func tracepointIn(fsys fs.FS, dir, group, name string) (Event, error) {
	b, err := readSmall(fsys, path.Join(dir, "events", group, name, "id"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Event{}, tracefs.Missing(fsys, dir, group, name)
		}
		return Event{}, fmt.Errorf("tracepoint %s:%s: %w", group, name, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return Event{}, fmt.Errorf("tracepoint %s:%s: bad id %.20q", group, name, b)
	}
	return Event{Name: group + ":" + name, Type: perfring.EventTracepoint, Config: id}, nil
}

// tracepoints resolves a tracepoint, or all that a wildcard matches.
func (p *parser) tracepoints(group, name string) ([]Event, error) {
	if !strings.ContainsAny(group+name, "*?[") {
		e, err := Tracepoint(group, name, p.opts)
		return []Event{e}, err
	}
	dir, err := findTracefs(p.opts)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	matches, err := fs.Glob(p.fsys, path.Join(dir.Path, "events", group, name, "id"))
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q: %w", group+":"+name, err)
	}
	var out []Event
	for _, m := range matches {
		parts := strings.Split(m, "/")
		e, err := tracepointIn(p.fsys, dir.Path, parts[len(parts)-3], parts[len(parts)-2])
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
