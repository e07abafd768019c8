package pmc

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

var noHost = &Options{Root: fstest.MapFS{}}

// TestGenericEvents: encodings from enum perf_hw_id, perf_sw_ids, perf_hw_cache_id.
func TestGenericEvents(t *testing.T) {
	for s, want := range map[string]Event{
		"cycles":                Cycles(),
		"cpu-cycles":            Cycles(),
		"branch-instructions":   Branches(),
		"faults":                PageFaults(),
		"cs":                    ContextSwitches(),
		"L1-dcache-load-misses": Cache(CacheL1D, CacheRead, CacheMiss),
		"LLC-stores":            Cache(CacheLLC, CacheWrite, CacheAccess),
		"L2-speculative-load":   Cache(CacheLLC, CachePrefetch, CacheAccess),
		"node-misses-prefetch":  Cache(CacheNode, CachePrefetch, CacheMiss),
		"dTLB":                  Cache(CacheDTLB, CacheRead, CacheAccess),
		"branch-load-misses":    Cache(CacheBPU, CacheRead, CacheMiss),
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
