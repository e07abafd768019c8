package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/borescope/borescope/internal/bench/peer"
)

// mostListed is how many of the calls are printed that neither perf sees nor the code shows.
const mostListed = 12

// callers prints how many of the calls in the whole stacks of a build of examples/profile perf script sees,
// too, in a recording of the same work at the same time; and as the most that can be expected of samples at
// other instants, how many of the calls in every other sample of perf's the rest of its samples have. Of the
// others it prints what the code says.
func callers(tool string, w *youngWork, dir string, seconds, hz int) error {
	data, prof := filepath.Join(dir, "perf.data"), filepath.Join(dir, "profile.pb.gz")
	rate := strconv.Itoa(hz)
	// Before all processes of the work: it has their mappings then.
	perf := exec.Command("perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", rate,
		"--call-graph", "dwarf,16384", "-o", data)
	if err := perf.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- perf.Wait() }()
	if err := attached(perf.Process.Pid); err != nil {
		return errors.Join(err, peer.Interrupt(perf, ended))
	}
	time.Sleep(200 * time.Millisecond)
	stop, err := w.start(dir, seconds)
	if err != nil {
		return errors.Join(err, peer.Interrupt(perf, ended))
	}
	out, err := exec.Command(tool, "-U", "-F", rate, "-d", strconv.Itoa(seconds), "-pprof", prof).CombinedOutput()
	stop()
	if err := errors.Join(err, peer.Interrupt(perf, ended)); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	theirs, mapped, self, err := perfCalls(data, w.comm)
	if err != nil {
		return err
	}
	ours, err := profileCalls(prof, w.comm, mapped)
	if err != nil {
		return err
	}
	total, seen := 0, 0
	said := map[string]int{}
	var unseen []peer.Call
	read := code{}
	for c, o := range ours {
		total += o.samples
		if theirs[c] > 0 {
			seen += o.samples
			continue
		}
		o.said = read.judge(c)
		if o.said == callNone && strings.HasPrefix(o.names, "__restore_rt ") {
			o.said = callSignal // the innermost place, which is not in a Call
		}
		ours[c] = o
		said[o.said] += o.samples
		unseen = append(unseen, c)
	}
	fmt.Printf("%-26s %4d Hz  perf sees %.2f %% of %d calls (of its own: %v)\n",
		w.name, hz, 100*float64(seen)/float64(max(total, 1)), total, self)
	for _, v := range slices.Sorted(maps.Keys(said)) {
		fmt.Printf("%8d  not seen, a call %s\n", said[v], v)
	}
	slices.SortFunc(unseen, func(a, b peer.Call) int {
		return cmp.Or(ours[b].samples-ours[a].samples, strings.Compare(a.Inner+a.Outer, b.Inner+b.Outer))
	})
	listed := 0
	for _, c := range unseen {
		if o := ours[c]; o.said == callElse || o.said == callNone {
			if listed++; listed <= mostListed {
				fmt.Printf("%8d  %s\n%10s%s\n", o.samples, o.names, "", o.said)
			}
		}
	}
	return nil
}

// share is a part of something.
type share struct{ part, of int }

func (s share) String() string {
	return fmt.Sprintf("%.2f %% of %d", 100*float64(s.part)/float64(max(s.of, 1)), s.of)
}

// perfCalls counts the calls in the samples of some threads, and how many of those in every other sample are
// among those in the rest.
func perfCalls(data string, comm []string) (calls map[peer.Call]int, mapped peer.PerfMappings, self share, err error) {
	var halves [2]map[peer.Call]int
	for i := range halves {
		halves[i] = map[peer.Call]int{}
	}
	n := 0
	mapped, err = peer.PerfStacks(data, func(s *peer.PerfStack) {
		if !slices.Contains(comm, s.Comm) {
			return
		}
		n++
		for _, c := range s.Calls {
			halves[n%2][c]++
		}
	})
	for c, n := range halves[0] {
		self.of += n
		if halves[1][c] > 0 {
			self.part += n
		}
	}
	calls = maps.Clone(halves[0])
	for c, n := range halves[1] {
		calls[c] += n
	}
	return calls, mapped, self, err
}

// ourCall is a call in our stacks.
type ourCall struct {
	samples int
	names   string
	said    string // by the code, if perf does not see it
}

// profileCalls returns the calls in the whole stacks of some threads.
func profileCalls(file string, comm []string, mapped peer.PerfMappings) (map[peer.Call]ourCall, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, err
	}
	calls := map[peer.Call]ourCall{}
	for _, s := range p.Sample {
		if len(s.Label["stack_end"]) > 0 || len(s.Label["comm"]) == 0 || len(s.NumLabel["pid"]) == 0 || !slices.Contains(comm, s.Label["comm"][0]) {
			continue
		}
		inner, name, first := "", "", true
		for _, l := range s.Location {
			if l.Address == 0 {
				continue // interpreted
			}
			called := name
			outer := mapped.Place(int(s.NumLabel["pid"][0]), l.Address)
			if outer == "" { // such as in the vDSO
				break
			}
			name = outer
			if len(l.Line) > 0 {
				name = l.Line[len(l.Line)-1].Function.Name + " " + outer
			}
			if !first {
				c := calls[peer.Call{Inner: inner, Outer: outer}]
				c.samples += int(s.Value[0])
				c.names = called + " < " + name
				calls[peer.Call{Inner: inner, Outer: outer}] = c
				inner = outer
			}
			first = false
		}
	}
	return calls, nil
}
