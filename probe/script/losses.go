package script

import (
	"errors"
	"fmt"
	"io"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/output"
)

// ErrLost is the error of a run with RunOptions.Strict of which something was lost.
var ErrLost = errors.New("something was lost")

// gaps counts what was lost outside of the kernel. Most of it was said when it happened.
type gaps struct {
	missing  uint64 // probes that this machine does not have, if the script only warns of them
	warned   uint64 // loops that ended early, indexes out of bounds, divisions by zero
	failed   uint64 // files that could not be read, and commands that failed
	cats     uint64 // files of which cat() printed the beginning
	joins    uint64 // lists of join() without their end
	commands uint64 // commands that were not run because the script had ended
}

// finding is a list of what was lost.
type finding []output.Loss

// add adds a loss, if there is one. Of what was said before, text is "".
func (f *finding) add(reason string, n uint64, text string) {
	if n == 0 {
		return
	}
	if text != "" {
		text = fmt.Sprintf(text, n)
	}
	*f = append(*f, output.Loss{Reason: reason, Count: n, Text: text})
}

// lossTexts say what the reasons of bpf.Stats mean; how many stacks are whole is said apart.
var lossTexts = map[string]string{
	"ring":       "%d events were lost: the ring was full",
	"full":       "Map full; can't update element (%d times). " + output.MapFullHint,
	"missed":     "%d firings were missed: a program was running on the CPU",
	"no_scratch": "%d firings were left out: too many programs were active on a CPU",
	"limited":    "%d events were left out: the budget has no room for them",
	"throttled":  "%d firings were left out: the budget has no room for them",
	"faults":     "%d reads of memory failed: what they read is 0 or empty",
	"truncated":  "%d texts and buffers were cut to the length that they may have (max_strlen)",
	"busy":       "%d values were not deleted: the kernel was changing others",
}

// found returns what was lost: the reasons of bpf.Stats, and some more.
func (s *run) found(st *bpf.Stats) (f finding, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring != nil {
		rs, err := s.ring.Stats()
		if err != nil {
			return nil, err
		}
		s.lost = max(s.lost, rs.Lost)
		f.add("corrupt", rs.Corrupt, "The ring was malformed and was skipped to its end (%d times)")
	}
	packets, err := s.packets.lost()
	if err != nil {
		return nil, err
	}
	f.add("packets", packets, "%d packets were lost: their buffer was full")
	rest := *st
	rest.Full -= min(rest.Full, packets)
	for reason, n := range rest.Lost(s.lost) {
		f.add(reason, n, lossTexts[reason])
	}
	f.add("unnamed", uint64(len(s.names.gone)), "Addresses of %d processes have no names: they had ended, or run another program, before they were looked at")
	f.add("changed", uint64(len(s.names.changed)), "%d addresses have no names: their processes mapped one file and then another there")
	f.add("cat", s.gaps.cats, "%d files are longer than cat() prints (max_cat_bytes)")
	f.add("join", s.gaps.joins, "%d lists of join() are longer than it prints, or lost their end")
	f.add("commands", s.gaps.commands, "%d commands of system() were not run: the script had ended")
	f.add("missing", s.gaps.missing, "")
	f.add("runtime_errors", s.gaps.warned, "")
	f.add("failed", s.gaps.failed, "")
	return f, nil
}

// losses says what was lost, and how many user stacks are whole.
func (s *run) losses() error {
	st, err := s.loaded.Stats()
	if err != nil {
		return err
	}
	f, err := s.found(&st)
	if err != nil {
		return err
	}
	if s.Record != nil {
		if err := errors.Join(record(s.Record, lossesFile, f), record(s.Record, namesFile, &s.noted.to)); err != nil {
			return err
		}
	}
	if part := st.Unwalked + st.Broken; st.Walked > 0 && !s.JSON && (part > 0 || !s.Quiet) {
		whole := st.Walked - min(st.Walked, part)
		fmt.Fprintf(s.Stderr, "%.1f %% of %d user stacks are whole; %d were taken before the files of their process were read, "+
			"%d end too early\n", 100*float64(whole)/float64(st.Walked), st.Walked, st.Unwalked, st.Broken)
	}
	return s.say(f)
}

// say says what was lost.
func (s *run) say(f finding) error {
	text, err := s.out.Losses(f)
	if err != nil {
		return err
	}
	s.incomplete = len(f) > 0
	_, err = io.WriteString(s.Stderr, text)
	return err
}

// strictly returns the error of a run that has ended with err.
func (s *run) strictly(err error) error {
	if err == nil && s.Strict && s.incomplete {
		return ErrLost
	}
	return err
}

// missed says which probes could not be attached, if the script goes on without them, and returns how
// many they are.
func (s *run) missed() int {
	var seen []string
	for _, m := range s.absent() {
		name := m.Target.String()
		if n := len(seen); n > 0 && seen[n-1] == name { // on each CPU
			continue
		}
		seen = append(seen, name)
		fmt.Fprintf(s.Stderr, "WARNING: %v. Skipping.\n", m.Err)
	}
	s.gaps.missing = uint64(s.skipped + len(seen))
	return len(seen)
}

// absent returns the targets that are in no plan, or that the kernel refused.
func (s *run) absent() []probe.Missing {
	list := s.plan.Missing
	for _, l := range s.links {
		list = append(list[:len(list):len(list)], l.Missing()...)
	}
	return list
}
