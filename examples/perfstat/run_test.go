package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain is also the child whose instructions TestHardware counts.
func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv("PERFSTAT_ROUNDS")); err == nil {
		for range n {
			rounds++
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

// rounds is in memory, so that the loop is not optimised away.
var rounds uint64

// recorded is a run with everything a table can have: exact, scaled, missing
// and never counted events.
func recorded(scale uint64) measured {
	events := []pmc.Event{
		pmc.TaskClock(), pmc.ContextSwitches(), pmc.Cycles(), pmc.Instructions(), pmc.Branches(), pmc.BranchMisses(),
		pmc.CacheMisses(), pmc.RefCycles(),
	}
	c := pmc.Counts{Time: time.Second, Events: events, Errors: make([]string, len(events))}
	c.Errors[6] = "event cache-misses: not supported: the PMU cpu has no such event"
	raw := []uint64{800e6, 1234, 2_400_000_000, 3_600_000_000, 500_000_000, 5_000_000, 0, 0}
	for i := range events {
		r := pmc.Row{Event: i, CPU: -1, Raw: raw[i] * scale / 100, Enabled: 800 * time.Millisecond, Running: 800 * time.Millisecond}
		switch i {
		case 4, 5:
			r.Running /= 2
		case 6:
			continue
		case 7:
			r.Running = 0
		}
		c.Rows = append(c.Rows, r)
	}
	return measured{counts: c, elapsed: time.Second, user: 700 * time.Millisecond, sys: 100 * time.Millisecond}
}

// TestTable: the table and the JSON of recorded runs.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	w := tool.NewOutput(&b)
	for _, runs := range [][]measured{{recorded(100)}, {recorded(100), recorded(110), recorded(90)}} {
		if err := printTable(w, "'make'", "", runs); err != nil {
			t.Fatal(err)
		}
		if err := printJSON(w, runs); err != nil {
			t.Fatal(err)
		}
	}
	const golden = "testdata/table.txt"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v, got:\n%s", err, b.String())
	}
}

func TestBadArguments(t *testing.T) {
	for args, want := range map[string]string{
		"":                      "nothing to count",
		"-p 1 -a":               "exclude each other",
		"-r 0 -- true":          "at least 1",
		"-r 2 -a":               "none is given",
		"-I 3 -- true":          "at least 10",
		"-I 100 -r 2 -- true":   "exclude each other",
		"-C 3-1 -- true":        "runs backwards",
		"-x":                    "flag provided but not defined",
		"-e no-such -- true":    "no event is called",
		"-e {cycles -- true":    "no closing }",
		"-e cycles, -- true":    "no event",
		"-p notapid":            "invalid value",
		"-G x -p 7":             "exclude each other",
		"-r 2 -I 0 -C 0":        "none is given",
		"-e cpu-clock:z --true": "flag provided but not defined",
	} {
		var out bytes.Buffer
		if err := run(context.Background(), strings.Fields(args), tool.NewOutput(&out)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want … %s …", args, err, want)
		}
	}
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-h"}, tool.NewOutput(&out)); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "usage: perfstat") || !strings.Contains(out.String(), "-json") {
		t.Errorf("-h: %v\n%s", err, out.String())
	}
}

// values reads the JSON lines of a run.
func values(t *testing.T, args ...string) map[string]jsonLine {
	t.Helper()
	var out bytes.Buffer
	if err := run(context.Background(), append([]string{"-json"}, args...), tool.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	got := map[string]jsonLine{}
	for dec := json.NewDecoder(&out); dec.More(); {
		var l jsonLine
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		got[l.Event] = l
	}
	return got
}

// TestCommand: a command's system calls are counted exactly, from its execve on.
func TestCommand(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs, testenv.Tool("true"))
	got := values(t, "-e", "sched:sched_process_exec,page-faults,task-clock,cycles:u", "--", "true")
	if got["sched:sched_process_exec"].Value != "1.000000" || got["page-faults"].Value == "0.000000" || got["task-clock"].Unit != "msec" {
		t.Errorf("%+v", got)
	}
	hardware := pmc.Hardware(nil) == nil
	if (got["cycles:u"].Value == "<not supported>") == hardware || hardware != (got["cycles:u"].Error == "") {
		t.Errorf("with a PMU %v: %+v", hardware, got["cycles:u"])
	}
}

// TestHardware: the rows of a PMU: a child's instructions grow by as much for
// each million rounds of a loop, wherever one begins to count.
func TestHardware(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.PMU)
	count := func(rounds string) float64 {
		t.Setenv("PERFSTAT_ROUNDS", rounds)
		// Other threads of the runtime would look for work for as long as the loop
		// takes, which is no multiple of its rounds.
		t.Setenv("GOMAXPROCS", "1")
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		got := values(t, "-e", "instructions:u,cycles:u", "--", exe)
		for event, l := range got {
			if l.Error != "" || l.Running != 100 {
				t.Errorf("%s: %+v", event, l)
			}
		}
		n, err := strconv.ParseFloat(got["instructions:u"].Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The runtime's own instructions differ from run to run by some 100,000, and
	// the PMU of QEMU counts those of the other CPU too, should it do something:
	// the least counts are right.
	var per, again float64
	least := [3]float64{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64}
	for range 30 {
		for i, rounds := range []string{"1000000", "11000000", "31000000"} {
			least[i] = min(least[i], count(rounds))
		}
		per, again = (least[1]-least[0])/10e6, (least[2]-least[1])/20e6
		if per >= 2 && per <= 20 && math.Abs(per-again) <= 0.05*per {
			t.Logf("%.4f and %.4f instructions a round", per, again)
			return
		}
	}
	t.Errorf("%.4f, then %.4f instructions a round", per, again)
}

// TestAgainstPerf: page faults of the same command, next to perf stat's.
func TestAgainstPerf(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("perf"), testenv.Tool("true"))
	out, err := testenv.Command(t, "perf", "stat", "-j", "-e", "minor-faults", "true").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := regexp.MustCompile(`"counter-value" : "([0-9]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("perf says %s", out)
	}
	got := values(t, "-e", "minor-faults", "--", "true")["minor-faults"]
	mine, _, _ := strings.Cut(got.Value, ".")
	// The two start the command in different ways; the dynamic loader's faults
	// differ by a few with address randomisation.
	near := func(a, b string) bool {
		var x, y json.Number = json.Number(a), json.Number(b)
		i, _ := x.Int64()
		j, _ := y.Int64()
		return i-j < 15 && j-i < 15 && i > 20
	}
	if !near(mine, string(m[1])) {
		t.Errorf("perfstat counts %s, perf stat %s", mine, m[1])
	}
}

// TestIntervals: a line for each event and interval, and the end without a table.
func TestIntervals(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("sleep"))
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-e", "cpu-clock", "-C", "0", "-I", "50", "--", "sleep", "0.22"}, tool.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !strings.HasPrefix(lines[0], "#") || len(lines) < 4 || strings.Contains(out.String(), "Performance counter stats") {
		t.Errorf("%s", out.String())
	}
}

// TestStops: Ctrl-C (the context) ends a run without a command, and it prints.
func TestStops(t *testing.T) {
	testenv.Need(t, testenv.Root)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, []string{"-a", "-e", "cpu-clock"}, tool.NewOutput(&out)); err != nil || !strings.Contains(out.String(), "CPUs utilized") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestFailures(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tool("false"))
	for args, want := range map[string]string{
		"-e cs -- false":                 "false: exit status 1",
		"-e cs -- /no/such/program":      "no such file",
		"-p 4194304 -e cs":               "process 4194304",
		"-G /no/such/cgroup -e cs -I 50": "no such file",
		"-C 8000 -e cpu-clock -- false":  "CPU 8000",
	} {
		var out bytes.Buffer
		if err := run(context.Background(), strings.Fields(args), tool.NewOutput(&out)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want … %s …", args, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	if runtime.GOOS != "linux" {
		testenv.Need(t, testenv.OS("linux"))
	}
	var out bytes.Buffer
	if err := run(context.Background(), []string{"--check"}, tool.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kernel.perf_event_paranoid", "PMUs:", "Events:", "Features:", "To profile, sample "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// Nothing to count is a mistake on the command line.
func TestNothingToCount(t *testing.T) {
	var stderr strings.Builder
	if status := cli.Status("perfstat", run(t.Context(), nil, tool.NewOutput(io.Discard)), &stderr); status != 2 {
		t.Errorf("status %d, %q", status, &stderr)
	}
}
