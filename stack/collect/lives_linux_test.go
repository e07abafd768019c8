package collect_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// TestLives: one number and one address are other code at other times of one window: of programs of one
// name that execute each other, of libraries of which one takes the place of the other, and of processes
// that get the number of the one before. Each says what it ran and when, and no sample has the name of
// what did not run then.
func TestLives(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	programs := stacktest.CompileLives(t)
	numbered := stacktest.Numbered(t)
	const ms, times = 40, 20
	length, more := strconv.Itoa(ms), strconv.Itoa(times-1)
	for name, run := range map[string]func(t *testing.T) string{
		"executed": func(t *testing.T) string {
			return output(t, programs.First, length, more, programs.Second, programs.First)
		},
		"loaded": func(t *testing.T) string {
			return output(t, programs.Plug, length, strconv.Itoa(times), programs.LibFirst, programs.LibSecond)
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
			told := stacktest.ParseTold(t, run(t))
			samples, err := c.ReadAndClear()
			if err != nil {
				t.Fatal(err)
			}
			if len(told) != times {
				t.Fatalf("%d of %d functions ran", len(told), times)
			}
			prof := &profile.Profile{Samples: collect.NewNamer(nil, func(pid int) symbol.Resolver {
				p, err := ps.Process(pid)
				if err != nil {
					return nil
				}
				return p
			}).Samples(samples)}
			checkLives(t, told, samples, prof, name != "loaded")
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

// checkLives compares the innermost functions of samples with what the programs told. The lives are
// apart if the kernel counts them apart.
func checkLives(t *testing.T, told []stacktest.Told, samples []collect.Sample, prof *profile.Profile, apart bool) {
	t.Helper()
	var all, wrong, uncertain, unnamed, keys uint64
	right := make(map[string]uint64)
	for i := range samples {
		s := &samples[i]
		at := told[0].Start
		if s.PID != told[0].PID || len(s.User.Frames) == 0 || s.User.Frames[0].PC-at > 256 {
			continue
		}
		all += s.Count
		keys++
		f := prof.Samples[i].Frames[0]
		switch {
		case f.Uncertain:
			uncertain += s.Count
			continue
		case len(f.Functions) == 0:
			unnamed += s.Count
			continue
		}
		ok := false
		for _, r := range told {
			if r.Start != at {
				t.Fatalf("%s is at %#x, not at %#x as the others", r.Function, r.Start, at)
			}
			if s.First > r.To || s.Last < r.From {
				continue
			}
			if ok = r.Function == f.Functions[0].Name; !ok {
				break
			}
		}
		if ok {
			right[f.Functions[0].Name] += s.Count
		} else {
			wrong += s.Count
			t.Logf("%d samples from %d to %d are in %s", s.Count, s.First, s.Last, f.Functions[0].Name)
		}
	}
	t.Logf("%d samples of %d stacks: %v right, %d wrong, %d uncertain, %d without a name", all, keys, right, wrong, uncertain, unnamed)
	if wrong != 0 || right["first"] == 0 || right["second"] == 0 {
		t.Errorf("of %d samples %v are right and %d wrong", all, right, wrong)
	}
	if uncertain != 0 && apart {
		t.Errorf("%d samples are uncertain, which the kernel tells apart", uncertain)
	}
	if n := uint64(prof.Uncertain()); n < uncertain {
		t.Errorf("the profile has %d uncertain samples, not %d", n, uncertain)
	}
}
