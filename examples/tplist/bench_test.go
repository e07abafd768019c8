package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/usdt"
)

// manyNotes is how many USDT notes the benchmarks list: those of a Debian mirror's
// amd64 packages.
const manyNotes = 8500

// probed is a directory of files of this machine that have many probes, under as
// many names as it takes for manyNotes, and how many notes they have.
func probed(b *testing.B) (files []string, notes int) {
	var sources []string
	for _, pattern := range []string{
		"/usr/lib/jvm/*/lib/server/libjvm.so", "/usr/lib/postgresql/*/bin/postgres", "/usr/bin/python3.*[0-9]",
		"/usr/lib/*/libpython3*.so.*", "/usr/lib/*/libruby-*.so.*.*.*", "/usr/lib/*/libstdc++.so.6",
	} {
		found, _ := filepath.Glob(pattern)
		sources = append(sources, found...)
	}
	dir := b.TempDir()
	for round := 0; notes < manyNotes; round++ {
		before := notes
		for i, source := range sources {
			f, err := usdt.Open(source)
			if err != nil {
				continue // a script
			}
			sites, err := f.Sites()
			f.Close()
			path := filepath.Join(dir, fmt.Sprintf("%d-%d", round, i))
			if err != nil || len(sites) == 0 || os.Symlink(source, path) != nil {
				continue
			}
			files, notes = append(files, path), notes+len(sites)
		}
		if notes == before {
			testenv.Need(b, testenv.Missing("files with probes", "none here"))
		}
	}
	return files, notes
}

// TestMain is also the process that BenchmarkList measures.
func TestMain(m *testing.M) {
	if os.Getenv("TPLIST_CHILD") == "" {
		testenv.Main(m)
		return
	}
	fewCollections()
	if err := run(context.Background(), os.Args[1:], cli.NewOutput(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// BenchmarkList lists all notes in a process each, by probe and with the parsed
// arguments of each site, and compares with readelf -n over the same files, which
// parses none. The machine may be shared: what counts is the fastest of each, of
// the CPU's time as well.
func BenchmarkList(b *testing.B) {
	testenv.Need(b, testenv.Tool("readelf"))
	files, notes := probed(b)
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	commands := map[string][]string{"plain": {exe}, "v": {exe, "-v"}, "readelf": {"readelf", "-nW"}}
	cpu, wall := map[string]time.Duration{}, map[string]time.Duration{}
	for b.Loop() {
		for name, args := range commands {
			cmd := testenv.Command(b, args[0], append(args[1:len(args):len(args)], files...)...)
			cmd.Env = append(os.Environ(), "TPLIST_CHILD=1")
			begin := time.Now()
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
			took, used := time.Since(begin), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
			if cpu[name] == 0 || used < cpu[name] {
				cpu[name] = used
			}
			if wall[name] == 0 || took < wall[name] {
				wall[name] = took
			}
		}
	}
	b.ReportMetric(float64(notes), "notes")
	for name := range commands {
		b.ReportMetric(float64(wall[name].Microseconds())/1000, "ms/"+name)
		b.ReportMetric(float64(cpu[name].Microseconds())/1000, "cpu-ms/"+name)
	}
}
