package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/borescope/borescope/probe"
)

// vetting finds out what a request's targets stand for, and whether the rule allows all of
// it.
type vetting struct {
	session *session
	rule    *Rule
	offer   *Offer
	targets []probe.Target
	own     []int // processes that must be the client's own

	procs map[int]process
	plan  *probe.Plan
}

// run resolves the targets and checks everything that they stand for.
func (v *vetting) run(ctx context.Context) error {
	v.procs = map[int]process{}
	for _, pid := range v.own {
		p, err := processOf(pid)
		if err == nil {
			err = owns(v.session, pid)
		}
		if denied(err) || errors.Is(err, errNotExist) {
			return refuse("process %d is not there, or not user %d's own: the client could not trace it",
				pid, v.session.peer.UID)
		}
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		v.procs[pid] = p
	}
	if len(v.own) == 0 {
		return v.resolve(ctx)
	}
	// The client must learn nothing of what it can't read.
	return asClient(v.session.rights, attachCaps, func() error { return v.resolve(ctx) })
}

func (v *vetting) resolve(ctx context.Context) error {
	for _, t := range v.targets {
		if err := v.before(t); err != nil {
			return err
		}
	}
	o := probe.Options{}
	if v.offer.Resolve != nil {
		o = *v.offer.Resolve
	}
	// A number of matches far beyond the limit is not even resolved; one place may have
	// several names, and the places are counted below.
	o.MaxFunctions = 8*v.rule.maxSites() + 64
	o.Context = ctx
	plan, err := probe.Resolve(v.session.server.Env, []probe.Target{probe.Set(v.targets)}, &o)
	if err != nil {
		return err
	}
	files := map[string]*file{}
	sites := 0
	for i := range plan.Programs {
		for j := range plan.Programs[i].Sites {
			if err := v.site(&plan.Programs[i].Sites[j], files); err != nil {
				return err
			}
			sites++
		}
	}
	// Only what was read is allowed, and Attach compares it again.
	for path, f := range files {
		if id, ok := plan.Files[zipFile(path)]; !id.Same(f.id) && (ok || len(v.own) > 0) {
			return fmt.Errorf("%s was replaced or changed while it was read", path)
		}
	}
	if n := v.rule.maxSites(); sites > n {
		return refuse("%d places, %d are allowed", sites, n)
	}
	if err := tooManyThreads(threads(plan)); err != nil {
		return err
	}
	v.plan = plan
	return nil
}

// threads returns the number of events that samples and watchpoints of processes need.
func threads(plan *probe.Plan) int {
	of := map[int]int{}
	n := 0
	for i := range plan.Programs {
		for _, s := range plan.Programs[i].Sites {
			if s.PID == 0 || s.Path != "" {
				continue
			}
			if _, read := of[s.PID]; !read {
				// none if it has ended, which attaching finds
				entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.PID))
				of[s.PID] = len(entries)
			}
			n += of[s.PID]
		}
	}
	return n
}

// before checks what a path stands for before anything reads it: links may lead to files
// that the rule does not allow.
func (v *vetting) before(t probe.Target) error {
	name, pid := fileOf(t), pidOf(t)
	if !strings.HasPrefix(name, "/") || strings.ContainsAny(name, "*?[") {
		return nil
	}
	open := zipFile(name)
	if pid != 0 {
		open = fmt.Sprintf("/proc/%d/root%s", pid, open)
	}
	f, err := inspect(open)
	if err == nil {
		err = v.rule.allows(withFile(t, f, name))
	}
	if err != nil {
		return hidden(t)
	}
	return nil
}

// hidden returns the error for files that a client may not have and for files that do not
// exist, so that the client can't tell which it is.
func hidden(t probe.Target) error {
	return fmt.Errorf("policy: %s: the file is not there, or can't be read by this client, or leads to what is not among the targets allowed: %w", t, errNotExist)
}

// site checks one place.
func (v *vetting) site(s *probe.Site, files map[string]*file) error {
	t := s.Target
	if _, ok := t.(probe.Perf); ok {
		return nil // it was checked as written, and has got the event that "profile" stands for
	}
	if s.Path == "" {
		return v.rule.allows(t)
	}
	f := files[s.Path]
	if f == nil {
		var err error
		if f, err = inspect(zipFile(s.Path)); err != nil {
			return hidden(t)
		}
		files[s.Path] = f
	}
	if name := fileOf(t); strings.Contains(name, "/") {
		t = withFile(t, f, name)
	}
	what := placeOf(t)
	if what.Function != "" && s.Symbol != "" {
		// What it is, however it was asked for.
		what.Function, what.later = s.Symbol, false
	}
	if err := v.rule.allowsPlace(t, what); err != nil {
		return err
	}
	return v.checkFile(t, f, s.PID)
}

// checkFile refuses files where a breakpoint could come into another program: the kernel
// does not remove a breakpoint from a process that executes a program with other
// privileges, and puts it into everything that the process maps from then on.
func (v *vetting) checkFile(t probe.Target, f *file, pid int) error {
	p, own := v.procs[pid]
	switch {
	case f.privileged != "" && (own || pid != 0 && !sameRoot(pid)):
		return refuse("%s: the file gives programs privileges (%s)", t, f.privileged)
	case !own, p.locked, f.owner == v.session.peer.UID:
		return nil
	}
	return refuse("%s: process %d could execute programs with more privileges, which map this file too: it needs no_new_privs (NoNewPrivileges= of systemd), unless the file is user %d's own",
		t, pid, v.session.peer.UID)
}

// again checks that the pids still stand for the same processes. The gate finds programs
// that they have executed meanwhile.
func (v *vetting) again() error {
	for pid, was := range v.procs {
		if is, err := processOf(pid); err != nil || is.start != was.start {
			return fmt.Errorf("process %d has changed meanwhile: %w", pid, errNotExist)
		}
	}
	return nil
}

// zipFile returns the archive that a path of the form ARCHIVE!/FILE is in.
func zipFile(name string) string {
	archive, _, _ := strings.Cut(name, "!/")
	return archive
}

// withFile returns the target with the real path of its file.
func withFile(t probe.Target, f *file, name string) probe.Target {
	real := f.real
	if _, member, zip := strings.Cut(name, "!/"); zip {
		real += "!/" + member
	}
	real = path.Clean(real)
	switch t := t.(type) {
	case probe.Uprobe:
		t.Path = real
		return t
	case probe.Uretprobe:
		t.Path = real
		return t
	case probe.USDT:
		t.Path = real
		return t
	}
	return t
}
