package collect_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/symbol/lifecycle"
)

var update = flag.Bool("update", false, "record testdata/lives anew (root, gcc)")

// TestLives: one number and one address are other code at other times of one window: of programs of one
// name that execute each other, also if one has 64 bits and the other 32, of libraries of which one takes
// the place of the other, and of processes that get the number of the one before. Each says what it ran
// and when, and no sample has the name of what did not run then.
func TestLives(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	programs := stacktest.CompileLives(t)
	numbered := stacktest.Numbered(t)
	const ms, times, loads = 40, 12, 60
	length, more := strconv.Itoa(ms), strconv.Itoa(times-1)
	for name, run := range map[string]func(t *testing.T) string{
		"executed": func(t *testing.T) string {
			return output(t, programs.First, length, more, programs.Second, programs.First)
		},
		// That one library takes the place of another is learned from the kernel's records, some time later: what
		// was counted together until then is uncertain. So this takes longer than a busy machine needs for that.
		"loaded": func(t *testing.T) string {
			return output(t, programs.Plug, length, strconv.Itoa(loads), programs.LibFirst, programs.LibSecond)
		},
		"widths": func(t *testing.T) string {
			narrow := stacktest.CompileLives32(t)
			return output(t, narrow.First, length, more, narrow.Second, narrow.First)
		},
		"numbered": func(t *testing.T) (out string) {
			pid := ""
			for i := range times {
				argv := []string{programs.First, length, "0"}
				if i%2 == 1 {
					argv[0] = programs.Second
				}
				if i > 0 {
					argv = append([]string{numbered, pid}, argv...)
				}
				out += output(t, argv[0], argv[1:]...)
				pid = strconv.Itoa(stacktest.ParseTold(t, out)[0].PID)
			}
			return out
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := attach(t, probe.Perf{Freq: 999}, &collect.Options{NoKernel: true, Windows: true})
			defer c.Close()
			ps := symbol.NewProcesses(nil)
			defer ps.Close()
			stop := c.Watch(ps, nil)
			defer func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(200 * time.Millisecond) // the walker is loaded
			events := followEvents(t)
			told := stacktest.ParseTold(t, run(t))
			samples, err := c.ReadAndClear()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(told); n != times && (name != "loaded" || n != loads) {
				t.Fatalf("%d functions ran", n)
			}
			// With the race detector, and other tests beside this one, records are lost: what cannot be
			// known then is uncertain.
			checkLives(t, told, samples, namesOf(t, ps, samples), name != "loaded" && !meter.Raced())
			if *update {
				writeLives(t, name, &lives{told, events(told[0].PID), samples})
			}
		})
	}
}

// output is what a program prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := testenv.Command(t, name, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// followEvents returns a function for the events of a process from now on.
func followEvents(t *testing.T) func(pid int) []symbol.Event {
	t.Helper()
	online, err := cpus.Online(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pmc.OpenSampler(pmc.Dummy(), pmc.Scope{CPUs: online}, pmc.SamplingSpec{
		Task: true, Comm: true, Mmap: true, Time: true, MonotonicTime: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return func(pid int) (events []symbol.Event) {
		for rec := (pmc.Record{}); ; {
			ok, err := s.TryRead(&rec)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if ev, ok := lifecycle.Event(&rec); ok && ev.PID == pid && ev.Kind != symbol.EventFork {
				ev.Time = rec.ID.Time
				events = append(events, ev)
			}
		}
		slices.SortStableFunc(events, func(a, b symbol.Event) int { return cmp.Compare(a.Time, b.Time) })
		return events
	}
}

// writeLives writes what TestLivesReplay reads.
func writeLives(t *testing.T, name string, l *lives) {
	t.Helper()
	for i := range l.Events {
		if ev := &l.Events[i]; filepath.IsAbs(ev.Path) {
			ev.Path = "/lives/" + filepath.Base(ev.Path)
		}
	}
	l.Samples = slices.DeleteFunc(l.Samples, func(s collect.Sample) bool { return s.PID != l.Told[0].PID })
	for i := range l.Samples {
		s := &l.Samples[i]
		s.User.Frames = s.User.Frames[:min(len(s.User.Frames), 1)]
	}
	b, err := json.MarshalIndent(l, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join("testdata", "lives", name+".json"), append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
