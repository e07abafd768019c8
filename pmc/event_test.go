package pmc

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/perfring"
)

var noHost = &Options{Root: fstest.MapFS{}}

// TestGenericEvents: encodings from enum perf_hw_id, perf_sw_ids, perf_hw_cache_id.
// cache is a hardware cache event by its numbers: enum perf_hw_cache_id,
// perf_hw_cache_op_id and perf_hw_cache_op_result_id.
func cache(level, op, result uint64) Event {
	return generic(perfring.EventCache, level|op<<8|result<<16)
}

func TestGenericEvents(t *testing.T) {
	for s, want := range map[string]Event{
		"cycles":                Cycles(),
		"cpu-cycles":            Cycles(),
		"branch-instructions":   Branches(),
		"faults":                PageFaults(),
		"cs":                    ContextSwitches(),
		"L1-dcache-load-misses": cache(0, 0, 1),
		"LLC-stores":            cache(2, 1, 0),
		"L2-speculative-load":   cache(2, 2, 0),
		"node-misses-prefetch":  cache(6, 2, 1),
		"dTLB":                  cache(3, 0, 0),
		"branch-load-misses":    cache(5, 0, 1),
		"r1a8":                  Raw(0x1a8),
		"r0x1A8":                Raw(0x1a8),
		"1:2":                   PageFaults(),
		"mem:0x1000/4:w":        Breakpoint(0x1000, 4, BPWrite),
		"mem:4096:x":            Breakpoint(0x1000, 8, BPExec),
	} {
		got, err := ParseEvent(s, noHost)
		if err != nil || got != want {
			t.Errorf("ParseEvent(%q) = %+v, %v; want %+v", s, got, err, want)
		}
	}
	if Cycles().IsZero() || !(Event{}).IsZero() {
		t.Error("the zero Event must be no event, and cycles one")
	}
}

func TestUnknownNames(t *testing.T) {
	for _, s := range []string{"cycels", "no:such", "nopmu/x=1/"} {
		_, err := ParseEvent(s, noHost)
		var syntax *SyntaxError
		if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &syntax) {
			t.Errorf("ParseEvent(%q): %v", s, err)
		}
	}
}
