//go:build linux

package action_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// TestAttachPlanOptions: AttachPlan does what each of its options says. (It refuses Resolve:
// TestPlanIsResolved; what a Context ends: TestAttachCancelled.)
func TestAttachPlanOptions(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	n := action.NewCount("n")
	counts := func(targets ...probe.Target) (*action.Program, *probe.Plan) {
		p := action.NewProgram("planned")
		p.IncludeSelf = true
		for _, target := range targets {
			p.On(target, func(c *action.Ctx) { n.Inc(c) })
		}
		plan, err := bpf.Resolve(thisMachine(), p.Program, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p, plan
	}
	t.Run("AttachTo.Missing", func(t *testing.T) {
		for policy, fails := range map[probe.MissingPolicy]bool{
			probe.MissingError: true, probe.MissingWarn: false, probe.MissingIgnore: false,
		} {
			p, plan := counts(probe.RawTracepoint{Name: "sys_enter"}, probe.RawTracepoint{Name: "sys_exit"})
			plan.Programs[1].Sites[0].Symbol = "nosuch"
			s, err := action.AttachPlan(p, plan, &action.Options{Attach: &probe.AttachOptions{Missing: policy}})
			if (err != nil) != fails {
				t.Fatalf("%v: %v", policy, err)
			}
			if err != nil {
				continue
			}
			missing := s.Link().Missing()
			if sites := s.Link().Sites(); len(sites) != 1 || (len(missing) == 1) != (policy == probe.MissingWarn) {
				t.Errorf("%v: %d sites, missing %v", policy, len(sites), missing)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("Env", func(t *testing.T) {
		empty := env.New(&env.Options{Root: fstest.MapFS{}})
		for _, c := range []struct {
			o    action.Options
			hint bool
		}{
			{action.Options{}, true},
			{action.Options{Env: empty}, false},
			{action.Options{Env: empty, Attach: &probe.AttachOptions{Env: thisMachine()}}, true},
		} {
			p, plan := counts(probe.RawTracepoint{Name: "sys_enter"})
			plan.Programs[0].Sites[0].Symbol = "sys_entr"
			_, err := action.AttachPlan(p, plan, &c.o)
			if err == nil || strings.Contains(err.Error(), `did you mean "sys_enter"?`) != c.hint {
				t.Errorf("want a hint %v: %v", c.hint, err)
			}
		}
	})
	t.Run("Context", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		p, plan := counts(probe.RawTracepoint{Name: "sys_enter"})
		for _, o := range []*action.Options{
			{Context: ended}, {Attach: &probe.AttachOptions{Context: ended}},
		} {
			if _, err := action.AttachPlan(p, plan, o); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
	faults := func(t *testing.T, to *probe.AttachOptions, cause func()) uint64 {
		event, err := pmc.ParseEvent("minor-faults", nil)
		if err != nil {
			t.Fatal(err)
		}
		p, plan := counts(probe.Perf{Event: event, Period: 1, PID: os.Getpid()})
		s, err := action.AttachPlan(p, plan, &action.Options{Attach: to})
		testenv.SkipUnsupported(t, err)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		before := total(t, s, n)
		cause()
		return total(t, s, n) - before
	}
	t.Run("AttachTo.ExcludeKernel", func(t *testing.T) {
		const pages = 1000
		zero, err := os.Open("/dev/zero")
		if err != nil {
			t.Fatal(err)
		}
		defer zero.Close()
		touch := func() {
			m, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Munmap(m)
			_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // a kernel without huge pages has none
			for i := range pages {
				if _, err := zero.Read(m[4096*i : 4096*i+8]); err != nil {
					t.Fatal(err)
				}
			}
		}
		all, user := faults(t, nil, touch), faults(t, &probe.AttachOptions{ExcludeKernel: true}, touch)
		if all < pages || user > pages/2 {
			t.Errorf("%d pages touched by the kernel: %d faults, without the kernel's %d", pages, all, user)
		}
	})
	t.Run("AttachTo.ExcludeChildren", func(t *testing.T) {
		start := func() {
			if out, err := testenv.Command(t, "/proc/self/exe", "-test.run=^$").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		with := faults(t, nil, start)
		if own := faults(t, &probe.AttachOptions{ExcludeChildren: true}, start); own > with/2 {
			t.Errorf("%d faults without children, %d with them", own, with)
		}
	})
}
