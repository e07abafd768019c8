package broker

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/feature"
)

// person is a process: who asks, and what is asked for.
type person struct {
	*target
	name     string
	uid, gid uint32
	locked   bool     // no_new_privs
	libs     []string // what it has mapped
	knows    bool     // its program has the marker
	absent   bool     // there is no such process
	// borders is set for what is the machine's, whose kernel, root or program this
	// test knows nothing of: a rule for all processes may have it or not.
	borders bool
}

// wanted is one target of a request, taken apart.
type wanted struct {
	shape string
	text  string  // without a pid
	p     *person // nil if it names no process
	// kind, file and what are a user probe's; what is fixed is a table's.
	kind, file, what string
	fixed            *fixed
}

func (w *wanted) String() string {
	if w.p == nil {
		return w.text
	}
	return fmt.Sprintf("%s pid=%d", w.text, w.p.pid)
}

// verdict is what has to come of a request.
type verdict int

const (
	mustNot verdict = iota
	must
	may // it depends on what this test does not know
)

func (v verdict) String() string { return [...]string{"refused", "granted", "either"}[v] }

// fixed is a target that has no file.
type fixed struct {
	shape, text string
	// own is what has to come of it in a process of the client's own, with in a given
	// process for whom all processes are allowed, and all in every process.
	own, with, all verdict
	everyCPU       bool // it has a place for each CPU in every process
	handed         bool // it can be handed over, not shared
	guest          bool // others than this test would notice
	needs          feature.Feature
	means          string // what a pattern stands for: its name
	kernel         bool   // it happens in the kernel
	hz             uint64 // how often it comes
	is             Allow  // its fields
	every          bool   // only a rule for everything allows it
}

// fixedTargets are given a file of root's with privileges.
func fixedTargets(file string) []*fixed {
	return []*fixed{
		{shape: "samples", text: "profile:hz:49", own: must, with: must, all: must, hz: 49, everyCPU: true, needs: feature.Perf, is: Allow{Kind: "sample", Event: "clock"}},
		{shape: "samples of an event", text: "software:page-faults:1000", own: must, with: must, all: must, everyCPU: true, needs: feature.Perf, is: Allow{Kind: "sample", Event: "page-faults"}},
		{shape: "samples of the kernel", text: "software:context-switches:100000", own: must, with: must, all: must, everyCPU: true, needs: feature.Perf, kernel: true, is: Allow{Kind: "sample", Event: "context-switches"}},
		{shape: "timer", text: "interval:s:5", all: must, needs: feature.Perf, is: Allow{Kind: "interval"}},
		{shape: "samples of a CPU", text: "profile:hz:49 cpus=0", all: must, needs: feature.Perf, hz: 49, is: Allow{Kind: "sample", Event: "clock"}},
		{shape: "samples of a breakpoint", text: "perf:\"mem:0x10000/8:rw\":period:1", with: must, all: may, guest: true, needs: feature.Watchpoint, is: Allow{Kind: "sample", Event: "mem"}},
		{shape: "samples of the kernel's memory", text: "perf:\"mem:0xffff888000001000/8:rw\":period:1", with: may, all: may, guest: true, needs: feature.Watchpoint, is: Allow{Kind: "sample", Event: "mem"}},
		{shape: "samples of a uprobe", text: "perf:\"uprobe/path=" + file + ",offset=0x1000/\":period:1", is: Allow{Kind: "sample", Event: "uprobe"}},
		{shape: "samples of a kprobe", text: "perf:\"kprobe/func=vfs_read/\":period:1", is: Allow{Kind: "sample", Event: "kprobe"}},
		{shape: "samples of a tracepoint", text: "perf:\"sched:sched_process_exit\":period:1", is: Allow{Kind: "sample", Event: "tracepoint"}},
		{shape: "samples of a number", text: "perf:9:0x0:period:1", with: may, all: may, guest: true, is: Allow{Kind: "sample", Event: "9"}},
		{shape: "watchpoint", text: "watchpoint:0x10000:8:rw", own: must, with: must, needs: feature.Watchpoint, is: Allow{Kind: "watchpoint"}},
		{shape: "crooked watchpoint", text: "watchpoint:0x10001:8:w", needs: feature.Watchpoint, is: Allow{Kind: "watchpoint"}},
		{shape: "watchpoint of the kernel's", text: "watchpoint:0xffff888000001000:8:rw", with: may, all: may, guest: true, needs: feature.Watchpoint, every: true, is: Allow{Kind: "watchpoint"}},
		{shape: "watchpoint of a variable", text: "watchpoint:jiffies:8:w", with: may, all: may, guest: true, needs: feature.Watchpoint, is: Allow{Kind: "watchpoint", Name: "jiffies"}},
		{shape: "tracepoint", text: "tracepoint:sched:sched_process_exit", all: must, needs: feature.Tracepoint, is: Allow{Kind: "tracepoint", Group: "sched", Name: "sched_process_exit"}},
		{shape: "tracepoints", text: "tracepoint:sched:sched_process_exi?", means: "sched_process_exit", all: must, needs: feature.Tracepoint, is: Allow{Kind: "tracepoint", Group: "sched", Name: "sched_process_exi?"}},
		{shape: "no tracepoint", text: "tracepoint:sched:sched_nosuch", is: Allow{Kind: "tracepoint", Group: "sched", Name: "sched_nosuch"}},
		{shape: "raw tracepoint", text: "rawtracepoint:sched_process_exit", all: must, needs: feature.RawTracepoint, is: Allow{Kind: "rawtracepoint", Name: "sched_process_exit"}},
		{shape: "kprobe", text: "kprobe:ksys_sync", all: must, needs: feature.Kprobe, is: Allow{Kind: "kprobe", Function: "ksys_sync"}},
		{shape: "kretprobe", text: "kretprobe:ksys_sync", all: must, needs: feature.Kprobe, is: Allow{Kind: "kretprobe", Function: "ksys_sync"}},
		{shape: "fentry", text: "fentry:ksys_sync", all: must, needs: feature.Fentry, is: Allow{Kind: "fentry", Function: "ksys_sync"}},
		{shape: "fexit", text: "fexit:ksys_sync", all: must, needs: feature.Fexit, is: Allow{Kind: "fexit", Function: "ksys_sync"}},
		{shape: "fmod_ret", text: "fmod_ret:security_file_open", handed: true, guest: true, needs: feature.Fexit, is: Allow{Kind: "fmod_ret", Function: "security_file_open"}},
		{shape: "lsm", text: "lsm:file_open", handed: true, guest: true, needs: feature.LSM, is: Allow{Kind: "lsm", Name: "file_open"}},
		{shape: "iter", text: "iter:task", with: may, handed: true, needs: feature.Iter, is: Allow{Kind: "iter", Name: "task"}},
		{shape: "socket", text: "socket:lo", handed: true, is: Allow{Kind: "socket", Name: "lo"}},
		{shape: "begin", text: "begin", handed: true, is: Allow{Kind: "begin"}},
		{shape: "end", text: "end", handed: true, is: Allow{Kind: "end"}},
		{shape: "no target", text: "uprobe"},
		{shape: "no kind", text: "what:ever:f"},
	}
}

// oracle reads a policy by itself: what a client could trace and read it asks
// processes that are such clients. Nothing here calls what it judges.
type oracle struct {
	rules []Rule
	cpus  int
	// open counts what each user has, by rule.
	open map[[2]uint32]int
	// told is what clients have said before: nothing changes it while this runs.
	told map[string]bool
}

// could asks a client whether it could do something.
func (o *oracle) could(c *person, what string) bool {
	key := c.name + " " + what
	can, asked := o.told[key]
	if !asked {
		can = c.tell("%s", what) == "true"
		o.told[key] = can
	}
	return can
}

// matches tries all ways in which a pattern could stand for a name.
func matches(pattern, name string) bool {
	switch set, rest, closed := strings.Cut(pattern, "]"); {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return matches(pattern[1:], name) || name != "" && matches(pattern, name[1:])
	case name == "":
		return false
	case pattern[0] == '[' && closed:
		return inMembers(strings.TrimPrefix(set[1:], "!"), name[0]) != strings.HasPrefix(set, "[!") && matches(rest, name[1:])
	case pattern[0] == '?' || pattern[0] == name[0]:
		return matches(pattern[1:], name[1:])
	}
	return false
}

// inMembers tells whether a set such as a-z0 has a byte.
func inMembers(set string, c byte) bool {
	for ; set != ""; set = set[1:] {
		if len(set) > 2 && set[1] == '-' {
			if set[0] <= c && c <= set[2] {
				return true
			}
			set = set[2:]
		} else if set[0] == c {
			return true
		}
	}
	return false
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return p == name || matches(p, name) })
}

func isFor(r *Rule, c *person) bool {
	return r.Anyone || slices.Contains(r.UIDs, c.uid) || slices.Contains(r.GIDs, c.gid)
}

// knows tells whether some rule is for the client.
func (o *oracle) knows(c *person) bool {
	return slices.ContainsFunc(o.rules, func(r Rule) bool { return isFor(&r, c) })
}

// rule is the one that decides, -1 if there is none.
func (o *oracle) rule(c *person, offer string) int {
	return slices.IndexFunc(o.rules, func(r Rule) bool { return isFor(&r, c) && matchesAny(r.Offers, offer) })
}

// judge says what has to come of a request, and why; with the number of places, if
// they can be told.
func (o *oracle) judge(c *person, a *attack) (v verdict, why string, sites int) {
	i := o.rule(c, a.offer)
	if i < 0 {
		return mustNot, "no rule", 0
	}
	r := &o.rules[i]
	if a.offer != "count" && a.offer != "secret" && a.offer != "sessions" {
		return mustNot, "no such offer", 0
	}
	v = must
	places := map[string]bool{}
	left := max(r.EventsPerSecond, 1)
	if r.EventsPerSecond == 0 {
		left = 10_000
	}
	for _, w := range a.targets {
		if w.fixed == nil || r.HandOver {
			continue
		}
		if w.fixed.hz > left {
			return mustNot, w.text + ": too often", 0
		}
		left -= w.fixed.hz
	}
	for _, w := range a.targets {
		one, why := o.target(r, c, a, w, places)
		if one == mustNot {
			return mustNot, w.text + ": " + why, 0
		}
		v = max(v, one)
	}
	most := r.MaxSites
	if most == 0 {
		most = 64
	}
	if v == must && len(places) > most {
		return mustNot, fmt.Sprintf("%d places", len(places)), 0
	}
	most = r.MaxAttachments
	if most == 0 {
		most = 4
	}
	if o.open[[2]uint32{uint32(i), c.uid}] >= most {
		return mustNot, "attachments", 0
	}
	if r.MaxMapBytes == scarce {
		return mustNot, "memory", 0
	}
	return v, "", len(places)
}

// scarce is less memory than what is offered takes: a ring alone has 4096 bytes, and
// as much again for whoever reads and writes.
const scarce = 4096

// target judges one target, and adds its places.
func (o *oracle) target(r *Rule, c *person, a *attack, w *wanted, places map[string]bool) (verdict, string) {
	p := w.p
	if a.self {
		if w.fixed != nil && !slices.Contains([]string{"profile", "software", "perf", "interval", "watchpoint"}, w.word()) {
			return mustNot, "of no process"
		}
		p = c
	}
	if !slices.ContainsFunc(r.Targets, func(a Allow) bool { return w.allowedBy(a) }) {
		return mustNot, "not listed"
	}
	if p == nil && !r.AllProcesses {
		return mustNot, "of every process"
	}
	if p != nil && p.absent {
		return mustNot, "no process"
	}
	if p != nil && !r.AllProcesses && !o.own(c, p) {
		return mustNot, "not the client's"
	}
	v, why := o.member(r, c, p, w, places)
	if v == must && p != nil && p.borders {
		v = may
	}
	return v, why
}

func (o *oracle) member(r *Rule, c, p *person, w *wanted, places map[string]bool) (verdict, string) {
	if w.fixed == nil {
		return o.function(r, c, p, w, places)
	}
	f := w.fixed
	v, n := f.own, 1
	switch {
	case f.handed && r.HandOver:
		v = may
	case r.AllProcesses && p != nil:
		v = f.with
	case r.AllProcesses:
		v = f.all
		if f.everyCPU {
			n = o.cpus
		}
	}
	if f.means != "" && !slices.ContainsFunc(r.Targets, func(a Allow) bool {
		means := *w
		of := *f
		of.is.Name, means.fixed = f.means, &of
		return means.allowedBy(a)
	}) {
		return mustNot, "what it means is not listed"
	}
	if f.kernel && !r.AllProcesses && !r.Kernel {
		return mustNot, "it happens in the kernel"
	}
	for i := range n {
		places[fmt.Sprintf("%s %d %v", w.text, i, p)] = true
	}
	return v, "its kind"
}

// allowedBy reads one line of a policy: does it allow the target as it is written?
func (w *wanted) allowedBy(a Allow) bool {
	if a.Kind == "*" {
		return true
	}
	if w.fixed == nil {
		return userAllowed(a, w.kind, w.file, w.what, false)
	}
	is := w.fixed.is
	event := a.Event == is.Event || a.Event == "*" ||
		a.Event == "software" && slices.Contains([]string{"page-faults", "context-switches"}, is.Event)
	return a.Kind == is.Kind && event && !w.fixed.every &&
		(a.Function == is.Function || matches(a.Function, is.Function)) && (a.Group == is.Group || matches(a.Group, is.Group)) &&
		(a.Name == is.Name || matches(a.Name, is.Name))
}

// userAllowed reads one line for a function or USDT probe; found is set for what the
// symbols of the file say it is.
func userAllowed(a Allow, kind, file, what string, found bool) bool {
	if a.Kind == "*" {
		return true
	}
	if a.Kind != kind || a.File != file && !matches(a.File, file) {
		return false
	}
	if kind == "usdt" {
		provider, name, both := strings.Cut(what, ":")
		if !both {
			provider, name = "", what
		}
		return (a.Provider == provider || matches(a.Provider, provider)) && (a.Name == name || matches(a.Name, name))
	}
	lang, name, spoken := strings.Cut(what, ":")
	function, _, offset := strings.Cut(what, "+")
	switch {
	case spoken && lang == "app.c":
		return slices.Contains(a.Also, "lines")
	case spoken:
		return slices.Contains(a.Also, "languages") && (!found || matches(a.Function, name))
	case strings.HasPrefix(what, "0x"):
		return false
	case offset && !slices.Contains(a.Also, "offsets"):
		return false
	}
	return a.Function == function || matches(a.Function, function)
}

// word is the kind of a target.
func (w *wanted) word() string {
	word, _, _ := strings.Cut(w.text, ":")
	return word
}

// own asks a client whether a process is its own: one that it could trace, and no
// thread of one.
func (o *oracle) own(c, p *person) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	return err == nil && strings.Contains(string(status), fmt.Sprintf("\nTgid:\t%d\n", p.pid)) && o.could(c, fmt.Sprintf("trace %d", p.pid))
}

// functions are those of the programs of this test.
func functions(w *wanted) (names []string, offset string) {
	if w.kind == "usdt" {
		if slices.Contains([]string{"p:n", "n", "p:*", "?:n"}, w.what) {
			return []string{"p:n"}, ""
		}
		return nil, ""
	}
	switch what, _ := strings.CutPrefix(w.what, "go:"); what {
	case "f":
		return []string{w.what}, ""
	case "f2", "f?":
		return []string{"f2"}, ""
	case "f*", "*":
		return []string{"f", "f2"}, ""
	case "f+1":
		if w.kind == "uprobe" && runtime.GOARCH == "amd64" { // whose nop is one byte
			return []string{"f+1"}, "+1"
		}
	case "0x1000":
		if w.kind == "uprobe" {
			return []string{"0x1000"}, "at"
		}
	}
	return nil, ""
}

// function judges a probe in a file.
func (o *oracle) function(r *Rule, c, p *person, w *wanted, places map[string]bool) (verdict, string) {
	if strings.Contains(w.file, "/") && filepath.Clean(w.file) != w.file || strings.HasPrefix(w.file, ".") {
		return mustNot, "a path with detours"
	}
	if p != nil && strings.HasPrefix(w.file, "/proc/") {
		return mustNot, "a way from one process's root to another's"
	}
	names, offset := functions(w)
	if w.file == "" && w.kind != "usdt" {
		names = nil
		if w.what == markerName && p != nil && p.knows {
			names = []string{markerName}
		}
	}
	if offset == "at" && !r.AllProcesses {
		return mustNot, "an address"
	}
	if len(names) == 0 {
		return mustNot, "no such function"
	}
	paths, named := files(p, w)
	some := false
	for _, path := range paths {
		archive, _, _ := strings.Cut(path, "!/")
		if st, err := os.Stat(archive); err != nil || !st.Mode().IsRegular() {
			continue
		}
		if !r.AllProcesses && !o.could(c, "read "+archive) {
			continue // a pattern stands for what there is for the client
		}
		if b, err := os.ReadFile(archive); err != nil || !bytes.HasPrefix(b, []byte(elf.ELFMAG)) && archive == path {
			continue // nor for what is no program
		}
		some = true
		real, err := filepath.EvalSymlinks(archive)
		var st unix.Stat_t
		if err != nil || unix.Stat(archive, &st) != nil {
			return mustNot, "it went"
		}
		real += path[len(archive):]
		if named {
			real = w.file
		}
		for _, name := range names {
			if !slices.ContainsFunc(r.Targets, func(a Allow) bool { return userAllowed(a, w.kind, real, name, true) }) {
				return mustNot, real + ":" + name + " is not listed"
			}
			at := ""
			if p != nil {
				at = fmt.Sprint(p.pid)
			}
			places[fmt.Sprint(w.kind, " ", path, strings.TrimPrefix(name, "go:"), " ", at)] = true
		}
		if r.AllProcesses {
			continue
		}
		if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			return mustNot, real + " gives privileges"
		}
		if st.Uid != c.uid && !p.locked {
			return mustNot, real + " is another's, in a process that could gain privileges"
		}
	}
	if !some {
		return mustNot, "no file"
	}
	return must, ""
}

// files are those that a probe's file stands for. named is whether the rule is
// asked by that name, and not by their paths.
func files(p *person, w *wanted) (paths []string, named bool) {
	switch {
	case w.file == "" && p == nil:
		return nil, true
	case w.file == "" && w.kind == "usdt": // the program itself has no such probes
		return p.libs, false
	case w.file == "":
		return []string{fmt.Sprintf("/proc/%d/exe", p.pid)}, true
	case !strings.Contains(w.file, "/"):
		if p == nil {
			return nil, true
		}
		return slices.DeleteFunc(slices.Clone(p.libs), func(lib string) bool {
			name := filepath.Base(lib)
			return name != w.file && strings.TrimSuffix(name, ".so.1") != w.file
		}), true
	case !strings.HasPrefix(w.file, "/"):
		return nil, false
	case strings.Contains(w.file, "!/"):
		if !strings.HasSuffix(w.file, ".zip!/lib.so") {
			return nil, false
		}
		return []string{w.file}, false
	}
	paths, _ = filepath.Glob(w.file)
	return paths, false
}
