package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// pages is how many pages of a file the child reads, 23 times.
const pages = 64

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"read": func() {
		file := filepath.Join(os.TempDir(), "borescope-cachestat")
		if err := os.WriteFile(file, make([]byte, pages*4096), 0o600); err != nil {
			panic(err)
		}
		defer os.Remove(file)
		for range 23 {
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			page := make([]byte, 4096)
			for range pages {
				f.Read(page)
			}
			f.Close()
		}
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "cachestat", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/reads", "-T") }

// Pages that a child reads 23 times are in the cache.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Kprobes)
	child := tooltest.Start(t, "read")
	out := tooltest.Live(t, run, []string{"-json", "1"}, child.Work)
	hits := 0
	for _, r := range tooltest.Objects[struct{ Hits int }](t, out) {
		hits += r.Hits
	}
	if hits < 22*pages {
		t.Errorf("%d hits, want %d at least:\n%s", hits, 22*pages, out)
	}
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		n            map[uint32]uint64
		hits, misses uint64
		ratio        float64
	}{
		{map[uint32]uint64{}, 0, 0, 0},
		{map[uint32]uint64{accessed: 100, added: 20, dirtied: 10, buffers: 20}, 70, 10, 87.5},
		{map[uint32]uint64{accessed: 5, buffers: 9, added: 3}, 0, 0, 0},
		{map[uint32]uint64{accessed: 5, added: 9}, 0, 5, 0},
	} {
		if h, m, r := rates(c.n); h != c.hits || m != c.misses || r != c.ratio {
			t.Errorf("%v: %d hits, %d misses, %v%%", c.n, h, m, r)
		}
	}
}
