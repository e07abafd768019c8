package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/privileges"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Run attaches the first of the programs that this kernel can run, prints "START... Hit
// Ctrl-C to end.", calls body, and prints what was lost. body reads until the run ends:
// with Each, with Run.Every, or with its own loop until Run.Context is done. With
// -replay nothing is attached, and the program's handles return what they returned during the
// recording.
//
// Run tries the next program if the kernel cannot run the one before it, or lacks one of its
// targets. The programs share the maps that body reads.
func (t *Tool) Run(ctx context.Context, stdout *Output, start string, body func(r *Run) error,
	programs ...*action.Program,
) error {
	return t.run(ctx, stdout, start, &programRun{programs: programs}, body)
}

// source is what a live run attaches and reads from.
type source interface {
	// open attaches; replay opens the recording instead.
	open(r *Run) error
	replay(r *Run) error
	// requires returns the requirements for attaching.
	requires(env *probe.Env) []probe.Requirement
	// lost adds what was lost, except for the streams' own counts.
	lost(l *Lost) error

	Plan() *probe.Plan
	Record(rec *recording.Recorder)
	Detach() error
	Close() error
}

// run is Run for any source.
func (t *Tool) run(ctx context.Context, stdout *Output, start string, src source,
	body func(r *Run) error,
) (err error) {
	r := newRun(t, stdout)
	defer func() { err = cmp.Or(err, r.close()) }() // the first error is the cause
	if t.requires && !t.Replaying() {
		r.requires(src)
		return r.out.err
	}
	if err := attaching(ctx, func() error { return r.open(ctx, src) }); err != nil {
		return err
	}
	if !t.Replaying() {
		if err := privileges.Keep(ctx, t.name, t.record != ""); err != nil {
			return err
		}
	}
	r.begin(start)
	if fn, ok := ctx.Value(startKey{}).(func()); ok {
		fn()
	}
	if err := body(r); err != nil {
		return err
	}
	return r.finish()
}

type startKey struct{}

// OnStart returns a context for tests and for Command. Run calls fn when everything is
// attached and the start line is written, before it calls its body. The programs trace what
// happens in fn, and the body reads it afterwards.
func OnStart(ctx context.Context, fn func()) context.Context {
	return context.WithValue(ctx, startKey{}, fn)
}

// recorded is the part of a recording that is not in tables, streams and symbols.
type recorded struct {
	// Zero is the time at which CLOCK_MONOTONIC was 0.
	Zero time.Time `json:"zero"`
	// Began is the time at which the probes were attached.
	Began time.Time `json:"began,omitzero"`
	// Ticks are the times at which Every called its function.
	Ticks []time.Time `json:"ticks,omitempty"`
	// Probes are the sites' targets. The builtin probe is the index plus one.
	Probes []string `json:"probes,omitempty"`
	Lost   Lost     `json:"lost,omitzero"`
	// Kept is what Tool.Kept was given.
	Kept json.RawMessage `json:"kept,omitempty"`
}

// Lost counts what a run has lost. Run's last line prints it.
type Lost struct {
	// Events is the number of events that did not fit into a stream, Entries that of entries
	// that did not fit into a map.
	Events  uint64 `json:"events,omitempty"`
	Entries uint64 `json:"entries,omitempty"`
	// Firings is the number of probe firings that the kernel or a Budget left out.
	Firings uint64 `json:"firings,omitempty"`
	// Faults is the number of reads of memory that failed and gave zeros.
	Faults uint64 `json:"faults,omitempty"`
	// Calls is the number of system calls of 32-bit processes that were not seen, because the
	// kernel's tracepoints for each call (group syscalls) do not fire for them. They are
	// counted by the calls' names, and only for the processes of PID and similar flags.
	Calls uint64 `json:"calls,omitempty"`
}

// String returns one line, empty if nothing was lost.
func (l Lost) String() string {
	var parts []string
	for _, p := range []struct {
		n    uint64
		what string
	}{
		{l.Events, "events (the buffer was full)"},
		{l.Entries, "map entries (the map was full)"},
		{l.Firings, "probe firings (left out by the kernel)"},
		{l.Faults, "memory reads (not resident)"},
		{l.Calls, "calls of 32-bit processes (they have no tracepoints)"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if parts == nil {
		return ""
	}
	return "Lost: " + strings.Join(parts, ", ")
}

// open opens the recording, or attaches.
func (r *Run) open(ctx context.Context, src source) error {
	t := r.tool
	r.ctx = ctx
	if t.recording != nil {
		if err := json.Unmarshal(t.recording.Meta().Data, &r.data); err != nil {
			return fmt.Errorf("-replay %s: not a complete recording: %w", t.replay, err)
		}
		r.tick = r.data.Began.Local()
		return src.replay(r)
	}
	if err := t.findTasks(); err != nil {
		return err
	}
	if err := src.open(r); err != nil {
		return err
	}
	r.live = src
	r.unseen, r.uncounted = r.unseenBy(src)
	r.data.Zero, r.data.Began = kernel.MonotonicZero(), time.Now()
	r.tick = r.data.Began
	for _, p := range src.Plan().Programs {
		for _, site := range p.Sites {
			r.data.Probes = append(r.data.Probes, site.Target.String())
		}
	}
	if t.record != "" {
		var err error
		if r.rec, err = recording.Create(t.record,
			&recording.Meta{Tool: t.name, Args: t.args}); err != nil {
			return fmt.Errorf("-record %s: %w", t.record, err)
		}
		src.Record(r.rec)
	}
	if t.duration > 0 {
		r.ctx, r.cancel = context.WithTimeout(ctx, t.duration)
	}
	return nil
}

// programRun is the source of Run: the best program that the kernel can run.
type programRun struct {
	*action.Session
	programs []*action.Program
}

func (r *programRun) replay(run *Run) error {
	h, err := bpf.Open(r.programs[0].Program, run.tool.recording)
	if err != nil {
		return err
	}
	run.Reader = h
	return nil
}

func (r *programRun) open(run *Run) (err error) {
	if slices.ContainsFunc(r.programs, keepsUserStacks) {
		run.names.follow()
	}
	if r.Session, err = run.tool.attach(r.programs); err != nil {
		return run.tool.Explain(r.targets(), err)
	}
	run.Reader = r.Session
	return nil
}

// keepsUserStacks reports whether a program takes user stacks.
func keepsUserStacks(p *action.Program) (keeps bool) {
	p.Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
		keeps = keeps || e.Op == ir.OpUstack || e.Op == ir.OpUstackWalk
	})
	return keeps
}

// requires returns the requirements of the program that would be attached: the first one for
// which the kernel has the features.
func (r *programRun) requires(env *probe.Env) []probe.Requirement {
	for _, p := range r.programs {
		all := probe.Requires(env, p.Targets())
		if !slices.ContainsFunc(all, func(q probe.Requirement) bool {
			return q.Kind == "feature" && !q.Met()
		}) {
			return all
		}
	}
	return probe.Requires(env, r.targets())
}

func (r *programRun) targets() (all []probe.Target) {
	for _, p := range r.programs {
		all = append(all, p.Targets()...)
	}
	return all
}

func (r *programRun) lost(l *Lost) error {
	st, err := r.Stats()
	if err != nil {
		return err
	}
	l.add(st.Maps, r.buffers())
	l.Firings = st.NoScratch + st.Throttled + st.Limited + st.Missed
	l.Faults = st.Faults
	return nil
}

// buffers returns the set of names of the maps that are streams of events.
func (r *programRun) buffers() map[string]bool {
	names := map[string]bool{}
	for _, p := range r.programs {
		for _, m := range p.AllMaps() {
			names[m.Name] = m.Kind == ir.MapRing || m.Kind == ir.MapPerf
		}
	}
	return names
}

// add adds the entries that did not fit into maps. For buffers they are events, even if the
// body has not opened the stream; the count of a stream that it has opened may be behind.
func (l *Lost) add(maps []bpf.MapStats, buffers map[string]bool) {
	var events uint64
	for _, m := range maps {
		if buffers[m.Name] {
			events += m.Full
		} else {
			l.Entries += m.Full
		}
	}
	l.Events = max(l.Events, events)
}

// attach attaches the first program that this kernel can run.
func (t *Tool) attach(programs []*action.Program) (*action.Session, error) {
	o := t.Options
	o.Env = t.Env()
	ro := probe.Options{}
	if o.Resolve != nil {
		ro = *o.Resolve
	}
	ro.Fallback = true
	ro.Unsafe = ro.Unsafe || t.unsafe
	o.Resolve = &ro
	var errs []error
	for i, p := range programs {
		s, err := action.Attach(p, &o)
		if err == nil {
			t.explainPlan(s.Plan())
			return s, nil
		}
		errs = append(errs, err)
		if !missing(err) {
			break
		}
		if i < len(programs)-1 {
			t.Verbosef("%s: the next best is tried", oneLine(err))
		}
	}
	return nil, t.forUser(errors.Join(errs...))
}

// forUser returns an error without the positions in the tool's own source, which say nothing
// to its user; with -v they are printed. Positions in what the user wrote stay.
func (t *Tool) forUser(err error) error {
	text := err.Error()
	for _, pos := range sourcePositions(err) {
		text = strings.ReplaceAll(text, pos+": ", "")
	}
	if text == err.Error() {
		return err
	}
	t.Verbosef("%s", oneLine(err))
	return &userError{text, err}
}

// userError is an error with another text.
type userError struct {
	text string
	err  error
}

func (e *userError) Error() string { return e.text }
func (e *userError) Unwrap() error { return e.err }

// sourcePositions returns the positions in Go source of all errors that err consists of.
func sourcePositions(err error) (all []string) {
	if e, ok := err.(*ir.Error); ok && strings.HasSuffix(e.Pos.File, ".go") {
		all = append(all, e.Pos.String())
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(all, sourcePositions(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, sourcePositions(inner)...)
		}
	}
	return all
}

// missing reports whether the kernel lacks something that a program needs: a feature, a
// probe, or a field of its types (an *ir.Error of the compiler).
func missing(err error) bool {
	var compile *ir.Error
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) ||
		errors.As(err, &compile)
}

// explainPlan prints how probes are attached, with -v.
func (t *Tool) explainPlan(p *probe.Plan) {
	for i := range p.Programs {
		pr := &p.Programs[i]
		if len(pr.Sites) == 0 {
			continue
		}
		more := ""
		if len(pr.Sites) > 1 {
			more = fmt.Sprintf(" and %d more", len(pr.Sites)-1)
		}
		why := ""
		if pr.FallbackReason != "" {
			why = " (" + pr.FallbackReason + ")"
		}
		t.Verbosef("%s%s: by %v%s", pr.Sites[0].Target, more, pr.Method, why)
	}
	for _, m := range p.Missing {
		t.Verbosef("%v: left out: %v", m.Target, m.Err)
	}
}

// Verbosef prints a line to Stderr with -v.
func (t *Tool) Verbosef(format string, args ...any) {
	if t.verbose {
		t.Stderr.Printf("%s: %s\n", t.name, fmt.Sprintf(format, args...))
	}
}

// Explain returns an error with the capabilities for targets that the process lacks, instead of
// err, which is only a consequence. If it lacks none, Explain returns err.
func (t *Tool) Explain(targets []probe.Target, err error) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w; %s works everywhere", err, t.replayFlag())
	}
	var lacks []string
	for _, r := range probe.Requires(t.Env(), targets) {
		if r.Kind == "capability" && !r.Met() && !slices.Contains(lacks, r.Name) {
			lacks = append(lacks, r.Name)
		}
	}
	if lacks == nil {
		return err
	}
	return fmt.Errorf("needs root, or %s: sudo %s (%s needs neither): %w",
		strings.Join(lacks, " and "), t.name, t.replayFlag(), os.ErrPermission)
}

// replayFlag returns the flag that works on every machine.
func (t *Tool) replayFlag() string {
	if t.Demo != nil {
		return "-replay demo"
	}
	return "-replay DIR"
}

// requires prints the run's requirements, one to a line.
func (run *Run) requires(src source) {
	for _, r := range src.requires(run.tool.Env()) {
		run.JSON(r)
		run.Printf("%v\n", r)
	}
	run.flush()
}

// begin prints the start line.
func (r *Run) begin(start string) {
	format := "%s... Hit Ctrl-C to end.\n"
	if len(start)+len(format)-len("%s") > 80 {
		format = "%s...\nHit Ctrl-C to end.\n"
	}
	if r.tool.json && r.tool.Stderr.Terminal() {
		r.tool.Stderr.Printf(format, start)
	}
	r.Note(format, start)
	if r.live != nil {
		r.noteCompat(r.uncounted)
	}
	r.flush()
}

// finish prints what was lost, and completes the recording.
func (r *Run) finish() error {
	if r.live != nil {
		if err := r.Detach(); err != nil {
			return err
		}
		if err := r.countLost(); err != nil {
			return err
		}
	}
	if err := r.names.write(r.rec); err != nil {
		return err
	}
	if r.rec != nil {
		if r.tool.kept != nil {
			var err error
			if r.data.Kept, err = json.Marshal(r.tool.kept); err != nil {
				return err
			}
		}
		data, err := json.Marshal(&r.data)
		if err != nil {
			return err
		}
		r.rec.SetData(data)
	}
	if line := r.data.Lost.String(); line != "" {
		r.JSON(map[string]Lost{"lost": r.data.Lost})
		r.Note("%s\n", line)
	}
	r.names.unnamed.print(r)
	r.flush()
	return r.out.err
}

// countLost adds up what the streams and the program lost.
func (r *Run) countLost() error {
	l := &r.data.Lost
	for _, st := range r.streams {
		stats, err := st.Stats()
		if err != nil {
			return err
		}
		l.Events += stats.Lost
	}
	if r.unseen != nil {
		var err error
		if l.Calls, err = r.unseen.count(); err != nil {
			return err
		}
	}
	return r.live.lost(l)
}

// close frees everything. s need not have been opened.
func (r *Run) close() error {
	r.flush()
	var errs []error
	errs = append(errs, r.rec.Close()) // first: it records the last counts of the streams
	for _, st := range r.streams {
		errs = append(errs, st.Close())
	}
	if r.live != nil {
		errs = append(errs, r.live.Close())
	}
	if r.unseen != nil {
		errs = append(errs, r.unseen.Close())
	}
	errs = append(errs, r.names.close())
	if r.tool.recording != nil {
		errs = append(errs, r.tool.recording.Close())
	}
	if r.cancel != nil {
		r.cancel()
	}
	return errors.Join(errs...)
}
