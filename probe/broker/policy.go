package broker

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe"
)

// Policy says which clients may attach what. It is plain data, to be kept as JSON or built
// in Go. Requests that no rule allows are refused.
type Policy struct {
	// Rules are tried in order; the first that matches the peer and the offer decides.
	Rules []Rule `json:"rules"`
}

// Rule allows some offers to some users. A zero limit is the default that its field
// documents; it never means "none".
type Rule struct {
	// UIDs and GIDs are the users, and primary groups, that the rule is for. Anyone makes
	// it match every peer that can open the socket.
	UIDs   []uint32 `json:"uids,omitempty"`
	GIDs   []uint32 `json:"gids,omitempty"`
	Anyone bool     `json:"anyone,omitempty"`
	// Offers are the names of offers, or patterns of them (probe.Match).
	Offers []string `json:"offers"`
	// Targets are what may be probed. A request with wildcards must match as it is written,
	// and so must everything that it stands for, with paths without symbolic links.
	Targets []Allow `json:"targets"`
	// AllProcesses allows targets that fire in every process, or in processes of others.
	// Otherwise each target must name a process (its pid, or Request.Self) that is the
	// client's own: the kernel would let a process with the client's user, groups and no
	// capabilities trace it. This excludes processes with capabilities and those in user
	// namespaces of their own.
	//
	// The targets are then functions, USDT probes, samples (by a clock, a software event or
	// a counter of the CPU) and watchpoints of that process, in files that the client can
	// read and that give no privileges. Breakpoints stay when the process executes another
	// program, so the file must be the user's own, or the process must have no_new_privs
	// (prctl(2)). The attachment ends when the process executes another program, and its
	// programs do not run in the processes that it starts.
	AllProcesses bool `json:"all_processes,omitempty"`
	// Kernel has samples and watchpoints of own processes fire in the kernel as well. Otherwise
	// they fire in user mode, so that neither an address nor a stack shows where the kernel is,
	// and events that happen in the kernel only are refused. With AllProcesses, which needs no
	// Kernel, they fire in the kernel always.
	Kernel bool `json:"kernel,omitempty"`
	// MaxSites is the number of sites that one request may attach to; 0 is 64. A sample or
	// a watchpoint of a process is one site, for up to 4096 threads in a request.
	MaxSites int `json:"max_sites,omitempty"`
	// MaxAttachments is how many attachments a user may have at a time under this rule,
	// over all connections, including links that were handed over and still exist; 0 is 4.
	// One connection may have at most 16.
	MaxAttachments int `json:"max_attachments,omitempty"`
	// MaxMapBytes is the memory of the maps of all these attachments together, and of maps
	// that clients still have descriptors of, in bytes; 0 is 4 MiB.
	MaxMapBytes int64 `json:"max_map_bytes,omitempty"`
	// EventsPerSecond is the rate up to which each program runs; events beyond it are
	// dropped and counted. 0 is 10,000. Each dropped hit still costs a trap: an attachment
	// ends when its sites are hit, in a second, more than ten times as often and more than
	// 10,000 times. Samples that may come more often are refused when they are asked for:
	// those of a frequency or a timer, and those of a clock or of a counter of the CPU, which
	// is taken to count 10⁹ a second. That is reckoned for one CPU and all samples of the
	// request together. With HandOver the rate is not enforced and must be 0.
	EventsPerSecond uint64 `json:"events_per_second,omitempty"`
	// HandOver gives the client the links, which then last beyond the connection, as long
	// as the client holds them. It requires AllProcesses, because nothing would end them
	// when a process executes another program.
	HandOver bool `json:"hand_over,omitempty"`
}

// Limits are what a rule allows a program.
type Limits struct {
	// EventsPerSecond is enforced by the broker, unless it is 0 (HandOver).
	EventsPerSecond uint64
	// MapBytes is the memory left for maps, in bytes: more is refused after compiling.
	MapBytes int64
}

func (r *Rule) maxSites() int       { return orDefault(r.MaxSites, 64) }
func (r *Rule) maxAttachments() int { return orDefault(r.MaxAttachments, 4) }
func (r *Rule) maxMapBytes() int64  { return orDefault(r.MaxMapBytes, 4<<20) }

func (r *Rule) eventsPerSecond() uint64 {
	if r.HandOver {
		return 0
	}
	return orDefault(r.EventsPerSecond, 10_000)
}

func orDefault[T int | int64 | uint64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Validate returns an error for rules that can't have been intended.
func (p *Policy) Validate() error {
	for i := range p.Rules {
		r := &p.Rules[i]
		var problem string
		switch {
		case !r.Anyone && len(r.UIDs) == 0 && len(r.GIDs) == 0:
			problem = "it is for nobody: give uids, gids or anyone"
		case r.Anyone && len(r.UIDs)+len(r.GIDs) > 0:
			problem = "anyone, and uids or gids"
		case len(r.Offers) == 0:
			problem = "it allows no offer"
		case len(r.Targets) == 0:
			problem = "it allows no target"
		case r.MaxSites < 0 || r.MaxAttachments < 0 || r.MaxMapBytes < 0:
			problem = "a limit is negative"
		case r.Kernel && r.AllProcesses:
			problem = "kernel is for own processes; with all_processes it is included"
		case r.HandOver && r.EventsPerSecond != 0:
			problem = "a rate can't be enforced on links that are handed over"
		case r.HandOver && !r.AllProcesses:
			problem = "links that are handed over would outlast the programs that they are for: it takes all_processes"
		}
		for j := range r.Targets {
			if problem == "" {
				problem = r.Targets[j].validate()
			}
		}
		if problem != "" {
			return fmt.Errorf("policy: rule %d: %s", i, problem)
		}
	}
	return nil
}

// maxThreads is the number of threads that the samples and watchpoints of one request may
// be for. Each thread has an event of its own, which takes one of the broker's
// descriptors, and a client may have as many threads as it likes.
const maxThreads = 4096

func tooManyThreads(n int) error {
	if n <= maxThreads {
		return nil
	}
	return refuse("samples and watchpoints of %d threads, %d are allowed", n, maxThreads)
}

// refuse returns the error for requests that the policy does not allow.
func refuse(format string, args ...any) error {
	return fmt.Errorf("policy: %s: %w", fmt.Sprintf(format, args...), fs.ErrPermission)
}

// Peer identifies the process at the other end of a connection, as the kernel recorded it
// when it connected (SO_PEERCRED).
type Peer struct {
	PID      int
	UID, GID uint32
}

// isFor reports whether a rule is for a peer.
func (r *Rule) isFor(peer Peer) bool {
	return r.Anyone || slices.Contains(r.UIDs, peer.UID) || slices.Contains(r.GIDs, peer.GID)
}

// knows returns an error if there is no rule for a peer at all.
func (p *Policy) knows(peer Peer) error {
	if slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.isFor(peer) }) {
		return nil
	}
	return refuse("no rule is for user %d, group %d", peer.UID, peer.GID)
}

// rule returns the rule for a peer and an offer, and its index.
func (p *Policy) rule(peer Peer, offer string) (int, *Rule, error) {
	if err := p.knows(peer); err != nil {
		return 0, nil, err
	}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.isFor(peer) && matchAny(r.Offers, offer) {
			return i, r, nil
		}
	}
	return 0, nil, refuse("no rule gives user %d the offer %s", peer.UID, offer)
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(p, name) })
}

// targets parses a request's targets and checks them against the rule as they
// are written.
func (r *Rule) targets(texts []string, self int) ([]probe.Target, error) {
	var out []probe.Target
	for _, text := range texts {
		t, err := probe.ParseTarget(text)
		if err != nil {
			return nil, err
		}
		members := probe.Set{t}
		if set, ok := t.(probe.Set); ok {
			members = set
		}
		for _, m := range members {
			if self != 0 {
				if m, _, err = inProcess(m, self); err != nil {
					return nil, err
				}
			}
			if err := r.allows(m); err != nil {
				return nil, err
			}
			out = append(out, m)
		}
	}
	return out, r.rates(out)
}

// Events of the kernel's (include/uapi/linux/perf_event.h).
const (
	typeSoftware = 1 // PERF_TYPE_SOFTWARE

	cpuClock        = 0  // PERF_COUNT_SW_CPU_CLOCK
	taskClock       = 1  // PERF_COUNT_SW_TASK_CLOCK
	contextSwitches = 3  // PERF_COUNT_SW_CONTEXT_SWITCHES
	cpuMigrations   = 4  // PERF_COUNT_SW_CPU_MIGRATIONS
	cgroupSwitches  = 11 // PERF_COUNT_SW_CGROUP_SWITCHES
)

// isClock reports whether samples count the nanoseconds of a clock.
func isClock(t probe.Perf) bool {
	return t.Event.Type == typeSoftware && (t.Event.Config == cpuClock || t.Event.Config == taskClock)
}

// inKernel reports whether the event of samples never happens in user mode.
func inKernel(t probe.Perf) bool {
	return t.Event.Type == typeSoftware &&
		slices.Contains([]uint64{contextSwitches, cpuMigrations, cgroupSwitches}, t.Event.Config)
}

// perSecond is what clocks count in a second, and about what the counters of a CPU do.
const perSecond = 1_000_000_000

// rates checks how often samples may come.
func (r *Rule) rates(targets []probe.Target) error {
	left := r.eventsPerSecond()
	if r.HandOver {
		return nil
	}
	for _, t := range targets {
		p, ok := t.(probe.Perf)
		if !ok {
			continue
		}
		rate := p.Freq
		switch {
		case p.Every > 0:
			rate = uint64(time.Second / p.Every)
		case p.Period != 0 && (isClock(p) || p.Event.Hardware()):
			rate = perSecond / p.Period
		}
		if rate > left {
			return refuse("%s comes %d times a second, of %d that are allowed %d are left", spelling(t), rate,
				r.eventsPerSecond(), left)
		}
		left -= rate
	}
	return nil
}

func allowed(list []Allow) string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = w.text()
	}
	return strings.Join(out, ", ")
}

// allows checks one target.
func (r *Rule) allows(t probe.Target) error { return r.allowsPlace(t, placeOf(t)) }

// allowsPlace is allows for a target whose place is known better than it is written.
func (r *Rule) allowsPlace(t probe.Target, p place) error {
	name := spelling(t)
	lacks := ""
	if !slices.ContainsFunc(r.Targets, func(w Allow) bool {
		ok, why := w.allows(&p)
		lacks = cmp.Or(lacks, why)
		return ok
	}) {
		if lacks != "" {
			lacks = " (" + lacks + ")"
		}
		return refuse("%s is not among the targets allowed%s: %s", name, lacks, allowed(r.Targets))
	}
	if file := fileOf(t); strings.Contains(file, "/") && path.Clean(file) != file ||
		strings.HasPrefix(file, ".") {
		return refuse("%s: the path has to be absolute and without . or ..", name)
	}
	if p, ok := t.(probe.Perf); ok && (p.Event.PMU == "kprobe" || p.Event.PMU == "uprobe") {
		// Neither its file nor the instruction would be checked.
		return refuse("%s is a probe, not a sample: ask for it by that name", name)
	}
	if r.AllProcesses {
		return nil
	}
	if pidOf(t) == 0 {
		return refuse("%s fires in every process: name a process by pid, or ask for the own", name)
	}
	switch t := t.(type) {
	case probe.Uprobe:
		if t.Symbol == "" && t.File == "" {
			return refuse("%s is an address: name a function", name)
		}
	case probe.Perf:
		// Breakpoints may be at kernel addresses, tracepoints are the kernel's, and it is not
		// known what other PMUs count.
		if e := t.Event; !e.IsZero() && !e.Hardware() && e.Type != typeSoftware {
			return refuse("%s does not sample what a process does", name)
		}
		if !r.Kernel && inKernel(t) {
			return refuse("%s happens in the kernel: the rule does not include that", name)
		}
	case probe.Watchpoint:
		if t.Symbol != "" || t.Address>>63 != 0 {
			return refuse("%s is the kernel's", name)
		}
	}
	return nil
}

// ownPIDs returns the processes of a rule's targets that must be the client's own.
func ownPIDs(r *Rule, targets []probe.Target) []int {
	var out []int
	for _, t := range targets {
		if pid := pidOf(t); !r.AllProcesses && !slices.Contains(out, pid) {
			out = append(out, pid)
		}
	}
	return out
}

// spelling returns the target's text without its process.
func spelling(t probe.Target) string {
	if n, _, err := inProcess(t, 0); err == nil {
		t = n
	}
	return t.String()
}

// errNoProcess is the error for kinds of targets that can't be restricted to a process.
var errNoProcess = errors.New("it can't be restricted to one process")

// inProcess returns the target in another process, and the process that it was in;
// 0 is every process.
func inProcess(t probe.Target, pid int) (probe.Target, int, error) {
	switch t := t.(type) {
	case probe.Uprobe:
		t.PID, pid = pid, t.PID
		return t, pid, nil
	case probe.Uretprobe:
		t.PID, pid = pid, t.PID
		return t, pid, nil
	case probe.USDT:
		t.PID, pid = pid, t.PID
		return t, pid, nil
	case probe.Perf:
		t.PID, pid = pid, t.PID
		return t, pid, nil
	case probe.Watchpoint:
		t.PID, pid = pid, t.PID
		return t, pid, nil
	}
	return nil, 0, fmt.Errorf("%s: %w", t, errNoProcess)
}

func pidOf(t probe.Target) int {
	_, pid, _ := inProcess(t, 0)
	return pid
}

func fileOf(t probe.Target) string {
	switch t := t.(type) {
	case probe.Uprobe:
		return t.Path
	case probe.Uretprobe:
		return t.Path
	case probe.USDT:
		return t.Path
	}
	return ""
}
