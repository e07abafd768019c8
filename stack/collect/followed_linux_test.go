package collect_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/stack/profile"
)

// TestExecuted: a program executes another one of its name and ends. Both are named and walked, though
// nobody announces a new name and nothing can be read any more in the end.
func TestExecuted(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	// Only its threads: files of other processes are compiled first, which takes seconds with the race detector.
	c := attach(t, probe.Perf{Freq: 999}, &collect.Options{NoKernel: true, Comm: "again"})
	if err := c.LoadWalker(); err != nil {
		defer c.Close()
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	p := profiler(t, c)
	pid := stacktest.StartAgain(t)
	time.Sleep(100 * time.Millisecond)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		prof, err := p.Profile()
		if err != nil {
			t.Fatal(err)
		}
		var all int64
		in, whole := map[string]int64{}, map[string]int64{}
		for _, s := range prof.Samples {
			if s.PID != pid || len(s.Frames) == 0 || starts(&s) {
				continue
			}
			all += s.Values[0]
			for _, fn := range []string{"first", "second"} {
				if slices.ContainsFunc(s.Frames, func(f *profile.NamedFrame) bool {
					return len(f.Functions) > 0 && f.Functions[0].Name == fn
				}) {
					in[fn] += s.Values[0]
					if s.Stopped == stack.StopBottom {
						whole[fn] += s.Values[0]
					}
				}
			}
		}
		// 0.4 s of each.
		if in["first"] > 300 && in["second"] > 370 {
			if other := all - in["first"] - in["second"]; other > all/50 {
				t.Errorf("%d of %d samples are in neither", other, all)
			}
			// The walker gets the rules when a program is seen: with the race detector 142 of 377 were
			// whole.
			if whole["second"] < in["second"]/10 {
				st, err := c.Stats()
				t.Errorf("of %v samples %v are whole: %+v, %v", in, whole, st, err)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d samples: %v", all, in)
		}
	}
}

// starts reports whether a sample is of the linker that starts the program: all of its frames have files, and
// none is the program's.
func starts(s *profile.Sample) bool {
	return !slices.ContainsFunc(s.Frames, func(f *profile.NamedFrame) bool {
		return f.Mapping == nil || filepath.Base(f.Mapping.File) == "again"
	})
}

// TestNumberAgain: a process has the number and the name of one that ended. It is walked by its files'
// rules like that one: nobody announced it, since it seemed to be known.
func TestNumberAgain(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("perl"))
	c := attach(t, probe.Perf{Freq: 999}, &collect.Options{NoKernel: true, Windows: true})
	if err := c.LoadWalker(); err != nil {
		defer c.Close()
		testenv.SkipUnsupported(t, err)
		t.Fatal(err)
	}
	p := profiler(t, c)
	work := func(seconds string) []string {
		return []string{"perl", "-e", "while ((times)[0] < $ARGV[0]) { $x = join ',', sort 1..9 }", seconds}
	}
	whole := func(pid int) (whole, all int64) {
		t.Helper()
		w, err := p.Window()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range w.Samples {
			if s.PID == pid && len(s.Frames) > 0 {
				all += s.Values[0]
				if s.Stopped == stack.StopBottom && len(s.Frames) > 3 {
					whole += s.Values[0]
				}
			}
		}
		return whole, all
	}
	argv := work("60")
	first := testenv.Command(t, argv[0], argv[1:]...)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	pid := first.Process.Pid
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		n, all := whole(pid)
		if n > 0 {
			break // its files' rules are there
		}
		if time.Now().After(end) {
			t.Fatalf("of the first process %d of %d stacks are whole", n, all)
		}
	}
	first.Process.Kill()
	first.Wait()
	whole(pid)
	again := testenv.Command(t, stacktest.Numbered(t), append([]string{strconv.Itoa(pid)}, work("1.5")...)...)
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// It is announced within some 200 ms, and with the race detector its rules are there late.
	if n, all := whole(pid); n < all/10 || n == 0 {
		t.Errorf("of the next one %d of %d stacks are whole", n, all)
	}
}
