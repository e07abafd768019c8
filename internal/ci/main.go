// Command ci is the whole check of the module, from setting up the machine to the table of
// packages and kernels. .ci/run calls it. It needs Go, git, gcc and apt, uses root if it has
// it, and runs every step, even if a previous one failed.
//
//	go run ./internal/ci                      # each test wherever its result can differ
//	go run ./internal/ci -all                 # everything everywhere, in hours
//	go run ./internal/ci -steps vet,guests    # these only
//	go run ./internal/ci -list                # list of the steps
//
// Its last line is "N passed, N failed, N skipped": the tests of all runs, with each step that
// runs no tests counted as one.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/kernel"
)

// step is one part of the check. run returns the counts, and an error if the step failed. Its
// output goes to the step's own log.
type step struct {
	name  string
	about string
	limit time.Duration
	run   func(context.Context, *check) (testlog.Counts, error)
}

var steps = []step{
	{"setup", "install what the other steps need", 10 * time.Minute, setup},
	{
		"native", "BORESCOPE_LONG=1 go test ./... on this machine, as the user that runs this", 10 * time.Minute,
		harmless(native),
	},
	{
		"user", "go test -short ./... as nobody, with Go alone, no tracefs and no network",
		10 * time.Minute, harmless(user),
	},
	{"bare", "what may differ there as root, and README's first command", 5 * time.Minute, harmless(bare)},
	{
		"container", "what may differ in a pid namespace, as root and as nobody", 5 * time.Minute,
		harmless(container),
	},
	{"tidy", "go mod tidy changes nothing", 2 * time.Minute, command("go", "mod", "tidy", "-diff")},
	{"vet", "go vet ./...", 5 * time.Minute, command("go", "vet", "./...")},
	{"staticcheck", "staticcheck ./...", 8 * time.Minute, tool("staticcheck", "./...")},
	{"gofumpt", "gofumpt -l finds nothing", 3 * time.Minute, gofumpt},
	{"cross", "compile for other systems, and vet what is of one system", 10 * time.Minute, cross},
	{"nested", "build, vet and tests of the nested modules", 5 * time.Minute, harmless(nested)},
	{
		"compare", "the comparisons of internal/bench, each once in its shortest form", 5 * time.Minute,
		harmless(compare),
	},
	{"race", "go test -race -short of what has goroutines", 10 * time.Minute, harmless(race)},
	{"fuzz", "every fuzz target for a second or more", 10 * time.Minute, fuzz},
	{"bench", "every benchmark once", 8 * time.Minute, harmless(bench)},
	{
		"vmtest", "the guests' own test: jobs that fail, hang, leave things and crash", 3 * time.Minute,
		vmtest,
	},
	{"guests", "the declared packages on other kernels", 30 * time.Minute, guests},
}

// total is the time limit of the whole check.
const total = 58 * time.Minute

// within returns a limit for this check: it is three times as long in a whole check.
func (c *check) within(limit time.Duration) time.Duration {
	if c.all {
		return 3 * limit
	}
	return limit
}

// check is shared by the steps.
type check struct {
	out    io.Writer       // the log of the running step
	worth  strings.Builder // the parts to show if the step fails
	logs   string          // the directory of the logs
	tmp    string
	matrix matrix
	all    bool     // run everything everywhere: -all
	via    []string // prefix of every command, if any

	confined *confinement // of the running step's commands, nil if there is none
	// patience is how long what a command leaves may stay after its end: the kernel frees
	// some of its objects late.
	patience time.Duration

	// mu guards table, out and worth while guests run in parallel.
	mu    sync.Mutex
	table *table
}

// verdict is the result of a step.
type verdict struct {
	name   string
	counts testlog.Counts
	err    error
	took   time.Duration
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == nobodyFlag {
		os.Exit(asNobody(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == confineFlag {
		code, err := confined(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "ci: confined:", err)
			code = 125
		}
		os.Exit(code)
	}
	if len(os.Args) > 3 && os.Args[1] == bareFlag {
		fmt.Fprintln(os.Stderr, "ci: bare machine:", onBareMachine(os.Args[2:]))
		os.Exit(125)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (bool, error) {
	f := flag.NewFlagSet("ci", flag.ContinueOnError)
	only := f.String("steps", "", "run only these `steps`, separated by commas")
	list := f.Bool("list", false, "list the steps and end")
	all := f.Bool("all", false, "run everything everywhere: hours instead of half of one")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	if *list {
		for _, s := range steps {
			fmt.Fprintf(stdout, "%-12s %s\n", s.name, s.about)
		}
		return true, nil
	}
	chosen, err := choose(*only)
	if err != nil {
		return false, err
	}
	if !*all {
		// As on a machine without a C compiler, in guests and on other systems. Only race
		// needs cgo, and only it builds with cgo.
		os.Setenv("CGO_ENABLED", "0")
	}
	c, cleanup, err := newCheck(*all)
	if err != nil {
		return false, err
	}
	defer cleanup()
	ctx, cancel := context.WithTimeoutCause(ctx, c.within(total), errors.New("out of time"))
	defer cancel()
	return c.conclude(stdout, c.doAll(ctx, chosen, stdout)), nil
}

// beside are the steps that only compile. They run beside the others, one after the other and
// at the lowest priority: tests wait for a third of their time.
var beside = []string{"tidy", "vet", "staticcheck", "gofumpt", "cross"}

// doAll runs the steps and prints their results in their order.
func (c *check) doAll(ctx context.Context, chosen []step, stdout io.Writer) (vs []verdict) {
	if len(chosen) > 0 && chosen[0].name == "setup" {
		vs = append(vs, c.do(ctx, chosen[0], stdout))
		chosen = chosen[1:]
	}
	type result struct {
		verdict
		printed bytes.Buffer
	}
	results := map[string]chan *result{}
	var behind []step
	for _, s := range chosen {
		if slices.Contains(beside, s.name) {
			results[s.name] = make(chan *result, 1)
			behind = append(behind, s)
		}
	}
	b := &check{logs: c.logs, tmp: c.tmp, all: c.all, patience: c.patience}
	if nice, err := exec.LookPath("nice"); err == nil {
		b.via = []string{nice, "-n", "19"}
	}
	go func() {
		for _, s := range behind {
			var r result
			r.verdict = b.do(ctx, s, &r.printed)
			results[s.name] <- &r
		}
	}()
	for _, s := range chosen {
		if done := results[s.name]; done != nil {
			r := <-done
			stdout.Write(r.printed.Bytes())
			vs = append(vs, r.verdict)
			continue
		}
		vs = append(vs, c.do(ctx, s, stdout))
	}
	return vs
}

func choose(only string) ([]step, error) {
	if only == "" {
		return steps, nil
	}
	var chosen []step
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no step %q (see -list)", name)
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

func newCheck(all bool) (*check, func(), error) {
	m, err := readMatrix(filepath.FromSlash(".ci/matrix.txt"), all)
	if err != nil {
		return nil, nil, err
	}
	cache, err := kernel.CacheDir()
	if err != nil {
		return nil, nil, err
	}
	logs := filepath.Join(cache, "ci-logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, nil, err
	}
	tmp, err := os.MkdirTemp("", "ci")
	if err != nil {
		return nil, nil, err
	}
	// The user nobody looks for tools below it.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, nil, err
	}
	c := &check{
		logs: logs, tmp: tmp, matrix: m, all: all, table: newTable(m),
		patience: 10 * time.Second,
	}
	return c, func() { os.RemoveAll(tmp) }, nil
}

// do runs one step, prints its result, and shows the end of its log if it failed.
func (c *check) do(ctx context.Context, s step, stdout io.Writer) verdict {
	v := verdict{name: s.name}
	fmt.Fprintf(stdout, "--- %s: %s\n", s.name, s.about)
	path := filepath.Join(c.logs, s.name+".log")
	log, err := os.Create(path)
	if err != nil {
		v.err = err
		return v
	}
	defer log.Close()
	c.out = log
	c.worth.Reset()
	limit := c.within(s.limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	start, before := time.Now(), busy()
	v.counts, v.err = s.run(ctx, c)
	if ctx.Err() != nil {
		v.err = errors.Join(context.Cause(ctx), v.err)
	}
	v.took = time.Since(start)
	spent := fmt.Sprintf("%.0f s, %s", v.took.Seconds(), room(c.tmp))
	if !slices.Contains(beside, s.name) { // their time is in that of the others
		spent = fmt.Sprintf("%.1f CPUs busy for %s", (busy()-before).Seconds()/v.took.Seconds(), spent)
	}
	if v.counts == (testlog.Counts{}) && v.err == nil {
		v.counts.Passed = 1
	}
	if v.err != nil && v.counts.Failed == 0 {
		v.counts.Failed = 1
	}
	if v.err != nil {
		fmt.Fprintf(log, "\n%v\n", v.err)
		if c.worth.Len() == 0 {
			c.worth.WriteString(tail(path))
		}
		for line := range strings.Lines(c.worth.String()) {
			fmt.Fprint(stdout, "    ", line)
		}
		fmt.Fprintf(stdout, "FAIL %s (%s), the whole log is %s\n", s.name, spent, path)
	} else {
		fmt.Fprintf(stdout, "ok   %s (%s)\n", s.name, spent)
	}
	return v
}

// tail returns the end of a log.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error() + "\n"
	}
	return lastLines(string(b), 80)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if more := len(lines) - n; more > 0 {
		lines = append([]string{fmt.Sprintf("… %d lines before …", more)}, lines[more:]...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// showFailures keeps the output of failed tests.
func (c *check) showFailures(where string, rs []testlog.Result, tail string) {
	shown := false
	for _, r := range rs {
		if r.Status == testlog.Fail && r.Output != "" {
			fmt.Fprintf(&c.worth, "%s: --- FAIL: %s\n%s\n", where, r.Name, r.Output)
			shown = true
		}
	}
	if !shown {
		fmt.Fprintf(&c.worth, "%s: failed\n%s\n", where, tail)
	}
}

// conclude prints the table, the steps and the last line.
func (c *check) conclude(w io.Writer, vs []verdict) bool {
	c.table.print(w)
	fmt.Fprintln(w)
	var sum testlog.Counts
	var failed []string
	for _, v := range vs {
		state := "ok"
		if v.err != nil {
			state = "FAIL"
			failed = append(failed, v.name)
		}
		n := v.counts
		fmt.Fprintf(w, "%-4s %-12s %6.0f s %6d passed %4d failed %4d skipped\n",
			state, v.name, v.took.Seconds(), n.Passed, n.Failed, n.Skipped)
		sum.Add(n)
	}
	c.table.printSlowest(w)
	for _, v := range vs {
		if v.err != nil {
			fmt.Fprintf(w, "%s: %s\n", v.name, firstLines(v.err.Error(), 20))
		}
	}
	if len(failed) > 0 {
		fmt.Fprintf(w, "failed: %s\n", strings.Join(failed, ", "))
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", sum.Passed, sum.Failed, sum.Skipped)
	return len(failed) == 0
}

func firstLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	if len(lines) > n {
		lines = append(lines[:n], "…")
	}
	return strings.Join(lines, "\n")
}
