package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/output"
)

// AttachOptions are the options of [Attach]. The zero value drops what the script prints.
type AttachOptions struct {
	// Events gets what the script prints, in order, and is closed when the script has ended. The
	// script waits for its receiver: while it waits, records may be lost (Session.Stats). From
	// Session.Close on, events for which the channel has no room are dropped. Nil drops all.
	Events chan<- Event
	// Raw leaves text of traced processes as it is, with what a terminal acts on.
	Raw bool
	// Handover makes the script a version of those that were attached with it: its probes, but begin
	// and end, do nothing before Session.TakeOver, nor after that of a later version. Nil: they run.
	Handover *bpf.Handover
}

// Event is something that a script printed or said. It is plain data.
type Event struct {
	// Kind is what printed it, as in the lines of bpftrace -f json: "printf", "value", "map",
	// "time", "join", "cat", "syscall"; or "warning" for what would go to standard error.
	Kind string
	// Line is the line of the call in the script, from 1.
	Line int
	// Text is what Program.Run prints.
	Text string
	// Values are the arguments of printf() and print() of a value: int64, uint64, bool, string,
	// output.Buffer, output.Tuple and the other types of package output.
	Values []any
}

// Session is an attached script. Its methods may be called by several goroutines at a time.
type Session struct {
	run    *run
	cancel context.CancelFunc
	done   chan struct{}
	end    error // of the script, once done is closed

	closing sync.Once
	closed  bool // guarded by run.mu
}

// Attach loads and attaches a script, and returns when all of its probes are attached and its begin
// probes have run. The script goes on until it calls exit(), ctx ends, or Close is called, which must
// be called in any case; its maps can be read until then. Attach needs the privileges of bpf.Load.
func Attach(ctx context.Context, p *Program, o *AttachOptions) (*Session, error) {
	if o == nil {
		o = &AttachOptions{}
	}
	e := &events{to: o.Events, closing: make(chan struct{})}
	attached := make(chan struct{})
	r := p.newRun(&RunOptions{
		Stdout: &e.out, Stderr: &e.said, Raw: o.Raw, Quiet: true,
		Attached: func() error {
			close(attached)
			return nil
		},
	})
	r.events, r.handover = e, o.Handover
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{run: r, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.end = r.play(ctx)
		if e.to != nil {
			e.send(nil)
			close(e.to)
		}
	}()
	select {
	case <-attached:
		return s, nil
	case <-s.done:
	}
	select {
	case <-attached: // a script that has ended already
		return s, nil
	default:
		cancel()
		return nil, errors.Join(s.end, r.unload())
	}
}

// Wait waits until the script has ended by itself or with Attach's context, and returns the argument
// of exit(), 0 if it was not called.
func (s *Session) Wait() (status int, err error) {
	<-s.done
	return s.run.status, s.end
}

// Close ends the script, as exit() does: its end probes run. Then it frees all of it. It may be called
// again.
func (s *Session) Close() error {
	s.closing.Do(func() { close(s.run.events.closing) })
	s.cancel()
	<-s.done
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.end, s.run.unload())
}

// SetDisabled switches all probes of the script off, or on again. They stay attached, but do nothing. End
// probes run in any case.
func (s *Session) SetDisabled(off bool) error {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	if s.run.detached {
		return nil
	}
	return s.run.loaded.SetDisabled(off)
}

// TakeOver makes this version of a script, which was attached with a Handover, the one that counts.
// bpf.Handover says what that means for events, timers and pairs of probes.
func (s *Session) TakeOver() error {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return s.run.loaded.TakeOver()
}

// Stats returns the costs and losses so far. Lost is the number of records for which the ring had no
// room.
func (s *Session) Stats() (st bpf.Stats, lost uint64, err error) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.closed {
		return st, 0, os.ErrClosed
	}
	if st, err = s.run.loaded.Stats(); err == nil && s.run.ring != nil {
		rs, e := s.run.ring.Stats()
		lost, err = rs.Lost, e
	}
	return st, lost, err
}

// Entries returns the entries of a map of the script, such as "@start": keys and values as Decode of
// package output returns them, and for aggregations numbers, mapx.Average, mapx.Totals,
// hist.Distribution and *hist.Series. Of a map without keys the key means nothing. Map has types.
func (s *Session) Entries(name string) ([]output.Entry, error) {
	m, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return s.read(m, false)
}

// find returns a map of the script.
func (s *Session) find(name string) (*lower.Map, error) {
	var names []string
	for _, m := range s.run.low.Maps {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("the script has no map %s%s", name, near.Hint(name, names))
}

// read reads a map. With clear its entries are removed.
func (s *Session) read(m *lower.Map, clear bool) ([]output.Entry, error) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.closed {
		return nil, os.ErrClosed
	}
	return s.run.entries(m, clear)
}

// events sends what a script prints to a channel.
type events struct {
	to        chan<- Event
	closing   chan struct{} // is closed by Session.Close
	out, said bytes.Buffer
	values    []any
}

// kinds are the kinds of events by sites.
var kinds = map[lower.SiteKind]string{
	lower.Printf: "printf", lower.PrintValue: "value", lower.PrintMap: "map", lower.PrintEntry: "value",
	lower.Time: "time", lower.JoinEnd: "join", lower.Cat: "cat", lower.System: "syscall",
}

// send sends what was printed and said since the last call, at a site or, if that is nil, at the end.
func (e *events) send(at *lower.Site) {
	defer func() {
		e.out.Reset()
		e.said.Reset()
		e.values = nil
	}()
	line, kind := 0, ""
	if at != nil {
		line, _ = at.Loc.In.Position(int(at.Loc.Start))
		kind = kinds[at.Kind]
	}
	list := [...]Event{
		{Kind: kind, Line: line, Text: e.out.String()},
		{Kind: "warning", Line: line, Text: e.said.String()},
	}
	if kind == "printf" || kind == "value" {
		list[0].Values = e.values
	}
	for _, ev := range list {
		if ev.Text == "" || ev.Kind == "" || e.to == nil {
			continue
		}
		select {
		case e.to <- ev:
			continue
		default:
		}
		select {
		case e.to <- ev:
		case <-e.closing:
		}
	}
}
