package collect_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/collect"
)

// A context that ends, ends attaching, and nothing is left in the kernel.
func TestAttachCancelled(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf)
	clock, err := pmc.ParseEvent("cpu-clock", nil)
	if err != nil {
		t.Fatal(err)
	}
	targets := []probe.Target{probe.Perf{Event: clock, Freq: 49}, probe.RawTracepoint{Name: "sys_enter"}}
	for name, attach := range map[string]func(o collect.Options) (io.Closer, error){
		"Attach": func(o collect.Options) (io.Closer, error) { return collect.Attach(targets, &o) },
		"AttachWaits": func(o collect.Options) (io.Closer, error) {
			return collect.AttachWaits(collect.OffCPU, &collect.WaitOptions{Options: o})
		},
		"AttachCopies": func(o collect.Options) (io.Closer, error) {
			return collect.AttachCopies(targets, &collect.CopyOptions{Options: o})
		},
	} {
		for when, ends := range map[string]func(testenv.Objects) bool{
			"at once": func(testenv.Objects) bool { return true },
			"loaded":  func(o testenv.Objects) bool { return len(o.Programs) > 0 },
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				before, ctx := testenv.ObjectsOf(0), testenv.EndWhen(t, ends)
				c, err := attach(collect.Options{Context: ctx})
				if err == nil {
					c.Close()
				}
				if errors.Is(err, errors.ErrUnsupported) {
					testenv.SkipUnsupported(t, err)
				}
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				ctx.Held.WaitGone(t)
				if left := testenv.ObjectsOf(0).Without(before); left.Len() > 0 {
					t.Errorf("left open: %+v", left)
				}
			})
		}
	}
}
