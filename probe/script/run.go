package script

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// RunOptions are the options of Program.Run. The zero value prints to nowhere.
type RunOptions struct {
	// Stdout is where the script prints, Stderr where it says how many probes are attached and
	// what was lost. Nil is nowhere.
	Stdout, Stderr io.Writer
	// JSON prints lines of JSON, as bpftrace's -f json does.
	JSON bool
	// Raw leaves text of traced processes as it is; otherwise it is printed with '?' for each
	// character that a terminal acts on, and system() has '_' for each that a shell acts on.
	Raw bool
	// Quiet does not say how many probes are attached.
	Quiet bool
	// NoWarnings leaves out what warnf() prints.
	NoWarnings bool
	// Strict has Run and Replay return ErrLost if anything was lost, did not fit, was missed or cut,
	// or could not be read. What is printed is the same.
	Strict bool
	// Record, if not nil, records what is read of the running program, for Replay. The caller
	// closes it after Run. Tests and benches are not recorded.
	Record *recording.Recorder
	// Signals has a value for each SIGUSR1 that this process gets, as signal.Notify sends them: the script's
	// probes self:signal:SIGUSR1 run, at the latest after 0.2 s. Nil is none.
	Signals <-chan os.Signal
	// Attached is called when all probes are attached. Its error ends the run. Nil is nothing.
	Attached func() error
	// Start is called behind Attached, to run the command whose process is Options.Child. looked, if not nil,
	// reads the files of that process, so that its first stacks are whole and its addresses have names
	// although it may end at once: Start has it called, from any goroutine, while the command's program is in
	// memory and does not run yet, as tool.Command.GoAfter does. It does nothing when the run has ended. The
	// error of Start ends the run. Nil is nothing.
	Start func(looked func()) error
}

// Run loads and attaches the program, and prints what the script prints, until the script calls
// exit() or ctx ends, or, if it has no other probes than begin and end, until these have run. Then
// it runs the end probes, prints what is left in the ring, and the maps. status is exit()'s
// argument. The end of ctx is no error. At the end Run says what was lost, and why. Run needs the privileges of bpf.Load.
func (p *Program) Run(ctx context.Context, o *RunOptions) (status int, err error) {
	s := p.newRun(o)
	if s.Record != nil && p.mode != ModeRun {
		return 0, errors.New("tests and benches cannot be recorded: only ModeRun")
	}
	err = s.run(ctx)
	return s.status, s.strictly(err)
}

// Replay prints what a recording of the program has, as Run printed it while it was recorded: the
// records, the maps, the names of addresses and users, and what was lost. Nothing is loaded, and no
// privileges are needed. The times of time() are those of the replay; cat(), system() and skboutput() do
// nothing.
func (p *Program) Replay(rec *recording.Recording, o *RunOptions) (status int, err error) {
	s := p.newRun(o)
	replayed, err := bpf.Open(p.low.IR, rec)
	if err != nil {
		return 0, err
	}
	var said answers
	if err := recorded(rec, namesFile, &said); err != nil {
		return 0, err
	}
	s.reader, s.values.Names, s.replay = replayed, &said, true
	if s.low.Ring != nil {
		if s.ring, err = bpf.OpenStream(s.reader, s.low.Ring, 0); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, s.ring.Close()) }()
		if err := s.drain(context.Background()); err != nil {
			return s.status, err
		}
	}
	var f finding
	if err := recorded(rec, lossesFile, &f); err != nil {
		return s.status, err
	}
	return s.status, s.strictly(errors.Join(s.printMaps(), s.say(f)))
}

func (p *Program) newRun(o *RunOptions) *run {
	if o == nil {
		o = &RunOptions{}
	}
	s := &run{
		Program: p, RunOptions: *o, names: names{
			source: p.conf.ShowDebugInfo, debug: p.env.DebugDirs(),
		},
		tables: map[*lower.Map]mapx.Table[bpf.Value, any]{}, zeroed: map[*lower.Map][]output.Entry{},
		joins: map[uint64][]string{},
	}
	s.boot = time.Now().Add(-time.Duration(kernel.Boottime())).Round(0)
	s.started = kernel.MonotonicZero()
	if p.clock {
		s.started = time.Unix(0, 0)
	}
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	if s.Stderr == nil {
		s.Stderr = io.Discard
	}
	s.values = &output.Options{JSON: o.JSON, Raw: o.Raw, Cut: p.conf.StrTruncTrailer, Names: &s.names, Arch: p.plan.Arch, Time: s.moment}
	if o.Record != nil {
		s.noted = &noting{Names: &s.names}
		s.values.Names = s.noted
	}
	s.out = output.New(s.Stdout, s.values)
	return s
}

// run is a running script.
type run struct {
	*Program
	RunOptions
	loaded *bpf.Loaded // nil in a replay
	reader bpf.Reader
	ring   bpf.Stream // nil if the script emits nothing
	out    *output.Printer
	values *output.Options
	tables map[*lower.Map]mapx.Table[bpf.Value, any] // those that were read
	zeroed map[*lower.Map][]output.Entry             // by zero()
	joins  map[uint64][]string                       // the texts of join(), by thread, until they are complete
	links  []*probe.Link
	lost   uint64
	gaps   gaps
	// Anything was lost, as was said at the end.
	incomplete bool
	names      names
	noted      *noting // has what names said, for a recording; nil if there is none
	packets    packets
	watched    *watched  // the processes of which programs take stacks; nil if they take none, and in a replay
	boot       time.Time // when CLOCK_BOOTTIME was 0
	started    time.Time // when CLOCK_MONOTONIC was 0
	exited     bool
	ended      time.Time // when Run's context was found to have ended
	result     *result   // of the test or bench that runs
	status     int
	// The program is an iterator's, which exit() ends after its last object, as bpftrace.
	iterating bool
	// Of a replay: what reads files and runs commands is left out.
	replay bool
	// Of a Session: what is printed goes to its events, and mu is held while a record is handled
	// or a map is read.
	events   *events
	handover *bpf.Handover // nil if it is no version of several
	detached bool
	mu       sync.Mutex
	// Of tests: each record, and the end, before the program is unloaded.
	seen func(data []byte)
	last func()
}

func (s *run) run(ctx context.Context) (err error) {
	if err := s.load(ctx); err != nil {
		return err
	}
	err = s.play(ctx)
	if s.last != nil {
		s.last()
	}
	return errors.Join(err, s.unload())
}

// load loads the programs.
func (s *run) load(ctx context.Context) (err error) {
	if s.handover != nil {
		s.loaded, err = s.compiled.LoadHandover(ctx, s.handover)
	} else {
		s.loaded, err = s.compiled.Load(ctx)
	}
	if err != nil {
		return err
	}
	s.reader = s.loaded
	if s.Record != nil {
		s.loaded.Record(s.Record)
	}
	if s.low.Ring != nil {
		if s.ring, err = bpf.OpenStream(s.reader, s.low.Ring, 0); err != nil {
			return errors.Join(err, s.loaded.Close())
		}
	}
	if err := s.openPackets(); err != nil {
		return errors.Join(err, s.unload())
	}
	if !s.low.Announces {
		return nil
	}
	pids := named(s.typed.File)
	if s.pid != 0 {
		pids = append(pids, s.pid)
	}
	s.watched = watch(s.loaded, s.names.files(), pids, s.child)
	s.names.follower = s.watched.follower
	return nil
}

// unload frees what load made.
func (s *run) unload() error {
	var err error
	if s.watched != nil {
		err = s.watched.stop()
	}
	if s.ring != nil {
		err = errors.Join(err, s.ring.Close())
	}
	return errors.Join(err, s.packets.close(), s.names.close(), s.loaded.Close())
}

// play attaches the programs and handles their records, until the script is to end and has ended.
func (s *run) play(ctx context.Context) error {
	ends, err := s.attach(ctx)
	if err == nil {
		err = s.detach()
	}
	if err != nil {
		return errors.Join(err, s.detach())
	}
	if err := s.enable(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		s.ended = time.Now()
	}
	return s.finish(context.WithoutCancel(ctx), ends)
}

// attach runs the begin programs, attaches the others, and handles records until the script is to
// end. It returns the plan of the end programs.
func (s *run) attach(ctx context.Context) (ends *probe.Plan, err error) {
	begins, others, ends := s.split()
	for _, plan := range []*probe.Plan{begins, others} {
		if plan == others {
			if err := s.disable(); err != nil {
				return nil, err
			}
		}
		if len(plan.Programs) == 0 {
			continue
		}
		link, err := plan.Attach(s.loaded.Programs(), &probe.AttachOptions{
			Env: s.env, Missing: missing(s.conf.MissingProbes), Context: ctx,
		})
		if err != nil {
			return nil, err
		}
		s.links = append(s.links, link)
	}
	if err := s.attached(); err != nil {
		return nil, err
	}
	switch {
	case s.mode == ModeTest:
		return ends, s.after(ctx, s.tests)
	case s.mode == ModeBench:
		return ends, s.after(ctx, s.benches)
	case len(others.Programs) == 0 && !s.Signalled():
		return ends, s.drain(ctx)
	case len(others.Programs) > 0 && others.Programs[0].Method == probe.MethodIter: // a script has no other probes then
		return ends, s.iterate(ctx)
	}
	return ends, s.follow(ctx)
}

// disable switches off what is attached from now on if begin has called exit().
func (s *run) disable() error {
	off, err := s.loaded.ExitRequested()
	if err != nil || !off {
		return err
	}
	return s.loaded.SetDisabled(true)
}

// attached says that the probes are attached, and which are not.
func (s *run) attached() error {
	n := -s.low.Added - s.missed()
	for i := range s.plan.Programs {
		n += probes(&s.plan.Programs[i])
	}
	if !s.Quiet && s.mode == ModeRun {
		text, err := s.out.Attached(n)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(s.Stderr, text); err != nil {
			return err
		}
	}
	if s.Attached != nil {
		if err := s.Attached(); err != nil {
			return err
		}
	}
	if s.Start == nil {
		return nil
	}
	if w := s.watched; w != nil && s.child != 0 {
		return s.Start(func() { w.entered(s.child) })
	}
	return s.Start(nil)
}

// probes returns the number of probes that a program serves. A USDT probe may be at several places, and
// an event is on each CPU.
func probes(p *probe.ProgramPlan) int {
	var seen []string
	n := 0
	for _, s := range p.Sites {
		switch s.Target.(type) {
		case probe.USDT, probe.Perf:
			if slices.Contains(seen, s.Target.String()) {
				continue
			}
			seen = append(seen, s.Target.String())
		}
		n++
	}
	return n
}

// split returns the plan's begin programs, its end programs, and the others, each as a plan. Those that the
// run itself calls are in none.
func (s *run) split() (begins, others, ends *probe.Plan) {
	part := func(keep func(probe.Target) bool) *probe.Plan {
		plan := *s.plan
		plan.Programs = slices.DeleteFunc(slices.Clone(plan.Programs), func(g probe.ProgramPlan) bool {
			return !keep(g.Sites[0].Target) || s.isCalled(&g)
		})
		return &plan
	}
	return part(lower.Begins), part(func(t probe.Target) bool { return !lower.Begins(t) && !lower.Ends(t) }),
		part(lower.Ends)
}

// iterate runs an iterator's program for each of its objects, and handles the records meanwhile.
func (s *run) iterate(ctx context.Context) error {
	r, err := s.links[len(s.links)-1].OpenIter()
	if err != nil {
		return err
	}
	s.iterating = true
	reading, done := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		read <- errors.Join(err, r.Close())
		done()
	}()
	err = s.follow(reading)
	done()
	if err != nil {
		return err // the program ends with the iterator's last read
	}
	return errors.Join(<-read, s.drain(ctx))
}

// detach ends all probes.
func (s *run) detach() error {
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	s.links = nil
	return errors.Join(errs...)
}

// enable switches the end probes on: nothing else is attached any more.
func (s *run) enable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	return s.loaded.SetDisabled(false)
}

// poll is how often a run looks whether the script has ended although the ring had no room for the
// record that says it.
const poll = 200 * time.Millisecond

// follow handles records until the script is to end.
func (s *run) follow(ctx context.Context) error {
	if s.ring == nil {
		return s.idle(ctx)
	}
	wait, stop := s.wait(ctx)
	defer func() { stop() }()
	var rec mapx.Record
	for (!s.exited || s.iterating) && ctx.Err() == nil { // also while records never end
		if err := errors.Join(s.signals(), s.duePackets()); err != nil {
			return err
		}
		err := s.ring.ReadInto(wait, &rec)
		switch {
		case err == nil:
			if err := s.record(ctx, &rec); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			if err := s.exitRequested(); err != nil {
				return err
			}
			stop()
			wait, stop = s.wait(ctx)
		default:
			return err
		}
	}
	return nil
}

// wait returns what bounds the waiting for records: if the script may exit, or has probes of signals, a time.
func (s *run) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	if len(s.packets.streams) > 0 {
		return context.WithTimeout(ctx, pollPackets)
	}
	if s.Signals != nil || slices.ContainsFunc(s.low.Sites, func(at lower.Site) bool { return at.Kind == lower.Exit }) {
		return context.WithTimeout(ctx, poll)
	}
	return ctx, func() {}
}

func (s *run) exitRequested() error {
	asked, err := s.loaded.ExitRequested()
	if err != nil || !asked {
		return err
	}
	s.exited = true
	s.status, err = s.loaded.ExitCode()
	return err
}

// drain handles the records that are in the ring.
func (s *run) drain(ctx context.Context) error {
	if s.ring == nil {
		return nil
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	var rec mapx.Record
	for {
		err := s.ring.ReadInto(done, &rec)
		if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.record(ctx, &rec)
		}
		if err != nil {
			return err
		}
	}
}

// finish runs the end programs, and prints what is left: records, maps, losses.
func (s *run) finish(ctx context.Context, ends *probe.Plan) error {
	// The ring has room for what end probes emit then.
	if err := errors.Join(s.drainPackets(), s.drain(ctx)); err != nil {
		return err
	}
	if len(ends.Programs) > 0 {
		link, err := ends.Attach(s.loaded.Programs(), &probe.AttachOptions{Env: s.env})
		if err == nil {
			err = link.Close() // which runs them
		}
		if err != nil {
			return err
		}
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	if s.events != nil {
		return s.losses()
	}
	if s.mode != ModeRun {
		return errors.Join(s.out.End(), s.losses())
	}
	return errors.Join(s.printMaps(), s.losses())
}

// printMaps prints all maps, after the end of the other output.
func (s *run) printMaps() error {
	if err := s.out.End(); err != nil {
		return err
	}
	if !s.conf.PrintMapsOnExit {
		return nil
	}
	for _, m := range s.low.Maps {
		if err := s.printMap(m, &output.MapOptions{Scalar: m.Scalar}, false); err != nil {
			return err
		}
	}
	return nil
}

// record does what a record asks for.
func (s *run) record(ctx context.Context, rec *mapx.Record) error {
	if rec.Lost > 0 {
		s.lost += rec.Lost
		text, err := s.out.Lost(rec.Lost)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(s.Stderr, text); err != nil {
			return err
		}
	}
	if len(rec.Data) < 8 {
		return fmt.Errorf("a record of %d bytes does not belong to the script", len(rec.Data))
	}
	if s.seen != nil {
		s.seen(rec.Data)
	}
	n := binary.LittleEndian.Uint64(rec.Data)
	if n >= uint64(len(s.low.Sites)) {
		return fmt.Errorf("record %d does not belong to the script", n)
	}
	at := &s.low.Sites[n]
	if s.exited && !at.End && !s.iterating {
		return nil // as bpftrace, which prints nothing after exit() but what end probes do
	}
	s.mu.Lock()
	err := s.site(ctx, at, rec.Data)
	s.mu.Unlock()
	if err == nil && s.events != nil {
		s.events.send(at)
	}
	return err
}

// failure says that a helper failed, with its place and the line. Helpers of which bpftrace does not
// know whose an address is take one that is not the kernel's for the user's: so the error is that of
// an address that is not there.
func (s *run) failure(at *lower.Site, code int64) error {
	if (at.Helper == lower.ProbeRead || at.Helper == lower.ProbeRead+"_str") && code == -int64(syscall.ERANGE) {
		code = -int64(syscall.EFAULT)
	}
	line, column := at.Loc.In.Position(int(at.Loc.Start))
	msg, err := s.out.Failure(at.Helper, code, at.Loc.In.Name, line, column)
	if err != nil || msg == "" {
		return err
	}
	e := syntax.Error{Loc: at.Loc, Severity: syntax.SeverityWarning, Msg: msg}
	_, err = io.WriteString(s.Stderr, e.String())
	return err
}

func (s *run) site(ctx context.Context, at *lower.Site, data []byte) error {
	if s.result != nil && (at.Severity == "errorf" || at.Kind == lower.Warning || at.Kind == lower.Failure) {
		s.result.errors++
	}
	raw := bpf.Value{Type: at.Record, Raw: string(data)}
	switch at.Kind {
	case lower.Printf:
		if at.Severity != "" {
			return s.message(at, s.out.Format(at.Format, s.args(at, raw)))
		}
		return s.out.Printf(at.Format, s.args(at, raw))
	case lower.Warning:
		s.gaps.warned++
		return s.warning(at)
	case lower.Failure:
		if len(data) < 16 {
			return fmt.Errorf("a failure of %d bytes", len(data))
		}
		return s.failure(at, int64(binary.LittleEndian.Uint64(data[8:])))
	case lower.PrintValue:
		return s.out.Value(s.args(at, raw)[0])
	case lower.PrintMap:
		o := &output.MapOptions{Scalar: at.Map.Scalar, Top: at.Top, Div: at.Div}
		return s.printMap(at.Map, o, at.Clear)
	case lower.PrintEntry:
		return s.printEntry(at.Map, s.args(at, raw)[0])
	case lower.Clear:
		return s.clear(at.Map)
	case lower.Zero:
		return s.zero(at.Map)
	case lower.Time:
		return s.out.Time(output.Strftime(at.Format, time.Now()))
	case lower.Process:
		if s.watched != nil {
			pid, _ := s.args(at, raw)[0].(uint64)
			s.watched.add(int(pid))
		}
		return nil
	case lower.Cat:
		return s.cat(ctx, s.out.Format(at.Format, s.args(at, raw)))
	case lower.System:
		if !s.ended.IsZero() && !at.End && time.Since(s.ended) > commandsAfter {
			s.gaps.commands++
			return nil
		}
		args := s.args(at, raw)
		if !s.Raw {
			args = shellSafe(args)
		}
		return s.system(ctx, s.out.Format(at.Format, args))
	case lower.JoinPart, lower.JoinEnd:
		return s.join(at, s.args(at, raw))
	case lower.Returned:
		if s.result != nil {
			s.result.value = raw.Elem(1).Int()
		}
		return nil
	case lower.Exit:
		s.exited, s.status = true, int(raw.Elem(1).Int())
		return nil
	}
	return fmt.Errorf("site of kind %d", at.Kind)
}

// message prints a message of warnf() or errorf(), with its place.
func (s *run) message(at *lower.Site, message string) error {
	severity := syntax.SeverityError
	if at.Severity == "warnf" {
		if s.NoWarnings {
			return nil
		}
		severity = syntax.SeverityWarning
	}
	e := syntax.Error{Loc: at.Loc, Msg: severity.String() + ": " + message}
	text := e.Error() + "\n"
	for l := at.Loc.From; l != nil; l = l.From {
		from := syntax.Error{Loc: *l, Severity: severity, Msg: "expanded from"}
		from.Loc.From = nil
		text += from.String()
	}
	return s.place(at, message, text)
}

// warning prints a warning about what the script does, with its place and the line.
func (s *run) warning(at *lower.Site) error {
	e := syntax.Error{Loc: at.Loc, Severity: syntax.SeverityWarning, Msg: at.Format}
	return s.place(at, at.Format, e.String())
}

// place prints a message of a site, which is text on standard error.
func (s *run) place(at *lower.Site, message, text string) error {
	line, column := at.Loc.In.Position(int(at.Loc.Start))
	kind := at.Severity
	if kind == "" {
		kind = "runtime_error"
	}
	printed, err := s.out.Message(kind, message, at.Loc.In.Name, line, column)
	if err != nil || printed {
		return err
	}
	_, err = io.WriteString(s.Stderr, text)
	return err
}

// mostJoins bounds the threads whose texts are not complete: that of one whose end was lost.
const mostJoins = 1024

// join keeps a text of a thread, or prints those that it has.
func (s *run) join(at *lower.Site, args []any) error {
	tid, _ := args[0].(uint64)
	if at.Kind == lower.JoinEnd {
		text := strings.Join(s.joins[tid], at.Format)
		delete(s.joins, tid)
		return s.out.Join(text)
	}
	n, _ := args[1].(uint64)
	if n >= lower.MostJoined {
		s.gaps.joins++
		return nil
	}
	if n == 0 && s.joins[tid] != nil { // the end of the ones before was lost
		s.gaps.joins++
		delete(s.joins, tid)
	}
	if len(s.joins) >= mostJoins && s.joins[tid] == nil {
		s.gaps.joins += uint64(len(s.joins))
		clear(s.joins)
	}
	text, _ := args[2].(string)
	s.joins[tid] = append(s.joins[tid], text)
	return nil
}

// args returns the values of a record.
func (s *run) args(at *lower.Site, raw bpf.Value) []any {
	s.names.stale = true
	args := make([]any, len(at.Args))
	for i, t := range at.Args {
		args[i] = output.Decode(t, raw.Elem(i+1), s.values)
	}
	if s.events != nil {
		s.events.values = args
	}
	return args
}

// moment returns the time of a clock; that of the other clocks is printed as theirs, as bpftrace
// does: CLOCK_TAI is ahead of the time.
func (s *run) moment(mode string, ns uint64) time.Time {
	if mode == "tai" || mode == "sw_tai" {
		return time.Unix(0, int64(ns))
	}
	return s.boot.Add(time.Duration(ns))
}

// entries returns the entries of a map. With clear they are removed, too.
func (s *run) entries(m *lower.Map, clear bool) ([]output.Entry, error) {
	s.names.stale = true
	t := s.tables[m]
	if t == nil {
		var err error
		if t, err = bpf.OpenTable(s.reader, m.IR); err != nil {
			return nil, err
		}
		s.tables[m] = t
	}
	read := t.Snapshot
	if clear {
		read = t.ReadAndClear
	}
	snap, err := read()
	if err != nil {
		return nil, err
	}
	var list []output.Entry
	latest := lastPoint(snap.Entries)
	for _, e := range snap.Entries {
		if points, ok := e.Value.([]bpf.Point); ok {
			e.Value = append(points, latest)
		}
		v, err := s.value(m, e.Value)
		if err != nil {
			return nil, err
		}
		key := e.Key
		if m.Wrapped {
			key = key.Elem(0)
		}
		list = append(list, output.Entry{Key: output.Decode(m.Key, key, s.values), Value: v})
	}
	if zeroed := s.zeroed[m]; len(zeroed) > 0 {
		have := make(map[string]bool, len(list))
		for _, e := range list {
			have[printed(e.Key)] = true
		}
		for _, z := range zeroed {
			if !have[printed(z.Key)] {
				list = append(list, z)
			}
		}
	}
	if clear {
		delete(s.zeroed, m)
	}
	return list, nil
}

// printed returns a key as it is printed, by which keys are compared.
func printed(key any) string { return fmt.Sprint(key) }

// value returns a value of OpenTable as output prints it.
func (s *run) value(m *lower.Map, v any) (any, error) {
	switch v := v.(type) {
	case bpf.Value:
		return output.Decode(m.Value, v, s.values), nil
	case []bpf.Value:
		return s.sum(m, v), nil
	case bpf.Stat:
		if m.IR.Agg == ir.AggAvg {
			return mapx.Average{Total: v.Sum, Count: v.Count}, nil
		}
		return mapx.Totals{Total: v.Sum, Count: v.Count}, nil
	case []hist.Bucket:
		return bpf.Distribution(m.IR, v)
	case []bpf.Point:
		return s.series(m.IR, v)
	}
	return v, nil
}

// sum returns the sum of what the CPUs have of a value.
func (s *run) sum(m *lower.Map, cpus []bpf.Value) any {
	var sum int64
	for _, v := range cpus {
		sum += v.Int()
	}
	if m.Value.Kind != types.Integer {
		return output.Decode(m.Value, cpus[0], s.values)
	}
	if m.Value.Signed {
		return sum
	}
	return uint64(sum)
}

// lastPoint returns the latest interval of all series of a map: they are printed up to it.
func lastPoint(entries []mapx.Entry[bpf.Value, any]) (last bpf.Point) {
	for _, e := range entries {
		if points, ok := e.Value.([]bpf.Point); ok && len(points) > 0 {
			last.Start = max(last.Start, points[len(points)-1].Start)
		}
	}
	return last
}

// series returns what a map has of some intervals, at the times of these. The last point has no
// value: see lastPoint.
func (s *run) series(m *ir.Map, list []bpf.Point) (*hist.Series, error) {
	points := make([]hist.Point, len(list))
	for i, p := range list {
		points[i] = hist.Point{Start: s.started.Add(p.Start), Value: p.Value, OK: i+1 < len(list)}
	}
	h, err := hist.SeriesOf(time.Duration(m.Interval), m.Slots, points)
	if err == nil {
		h.Unsigned = !m.Signed
	}
	return h, err
}

func (s *run) printMap(m *lower.Map, o *output.MapOptions, clear bool) error {
	list, err := s.entries(m, clear)
	if err != nil {
		return err
	}
	return s.out.Map(m.Name, list, o)
}

// printEntry prints the value of one entry of an aggregation, zero if there is none.
func (s *run) printEntry(m *lower.Map, key any) error {
	list, err := s.entries(m, false)
	if err != nil {
		return err
	}
	for _, e := range list {
		if printed(e.Key) == printed(key) {
			return s.out.Value(plain(e.Value))
		}
	}
	if m.IR.Agg == ir.AggStats {
		return s.out.Value(plain(mapx.Totals{}))
	}
	return s.out.Value(int64(0))
}

// plain returns an average or totals as output prints other values.
func plain(v any) any {
	switch v := v.(type) {
	case mapx.Average:
		return v.Mean()
	case mapx.Totals:
		return output.Record{{Name: "count", Value: v.Count}, {Name: "average", Value: v.Mean()}, {Name: "total", Value: v.Total}}
	}
	return v
}

// clear removes all entries.
func (s *run) clear(m *lower.Map) error {
	_, err := s.entries(m, true)
	return err
}

// zero sets all values to zero: of a map that the program reads, in the kernel. Entries of an
// aggregation are removed, and are zero until they have a value again.
func (s *run) zero(m *lower.Map) error {
	if m.IR.Agg != ir.AggNone {
		list, err := s.entries(m, true)
		if err != nil {
			return err
		}
		for _, e := range list {
			v, err := s.zeroOf(m.IR, e.Value)
			if err != nil {
				return err
			}
			s.zeroed[m] = append(s.zeroed[m], output.Entry{Key: e.Key, Value: v})
		}
		return nil
	}
	em := s.reader.EBPFMap(m.IR)
	if em == nil {
		return nil // a replay
	}
	if m.IR.Kind == ir.MapPerCPUHash || m.IR.Kind == ir.MapPerCPULRU {
		t, err := mapx.NewPerCPU[string, string](em)
		if err != nil {
			return err
		}
		return t.Zero()
	}
	t, err := mapx.New[string, string](em)
	if err != nil {
		return err
	}
	return t.Zero()
}

// zeroOf returns zero of an aggregation's value.
func (s *run) zeroOf(m *ir.Map, v any) (any, error) {
	switch v.(type) {
	case uint64:
		return uint64(0), nil
	case mapx.Average:
		return mapx.Average{}, nil
	case mapx.Totals:
		return mapx.Totals{}, nil
	case hist.Distribution:
		return bpf.Distribution(m, nil)
	case *hist.Series:
		return s.series(m, nil)
	}
	return int64(0), nil
}
