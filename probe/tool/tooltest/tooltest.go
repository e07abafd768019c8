package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
)

// Run is a tool's function for tool.Main.
type Run = func(ctx context.Context, args []string, stdout *tool.Output) error

var (
	update = flag.Bool("update", false, "write the golden files of replays anew")
	record = flag.String("record", "",
		"have Live record into this `directory`, which must not exist; into one below it if it ends with a slash")
)

// Replay replays the recording in dir with the given flags, in UTC, as text and with -json,
// and compares the output with the files DIR.golden and DIR.json.golden beside it; the test's
// flag -update rewrites them. Lines wider than 79 columns fail the test, unless only the last
// column of a table does not fit. So does output with control characters of terminals when
// names in the recording are replaced by those that an attacker would choose.
func Replay(t *testing.T, run Run, dir string, flags ...string) {
	t.Helper()
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	for _, g := range []struct {
		file string
		args []string
	}{
		{dir + ".golden", nil},
		{dir + ".json.golden", []string{"-json"}},
	} {
		args := append([]string{"-replay", dir}, append(flags, g.args...)...)
		var out bytes.Buffer
		if err := run(t.Context(), args, tool.NewOutput(&out)); err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		golden(t, g.file, out.Bytes())
		hostile(t, run, dir, append(flags, g.args...), out.String())
		if g.args == nil {
			narrow(t, out.String())
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v (-update writes it)", err)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s\nwant:\n%s", file, got, want)
	}
}

// heading matches a table's headings and captures the last one.
var heading = regexp.MustCompile(`^(?:[A-Z][\w()%/]* +)*([A-Z][\w()%/]*)$`)

// narrow fails the test for lines wider than 79 columns. The last column of a table, such as
// a path, may be wider, but has to begin within them.
func narrow(t *testing.T, out string) {
	t.Helper()
	last := 80
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatchIndex(line); m != nil {
			last = m[2]
		}
		if len(line) >= 80 && last >= 79 {
			t.Errorf("wider than 79 columns: %q", line)
		}
	}
}

// Live runs the tool with args, calls work when everything is attached, ends the tool as
// Ctrl-C does, and returns its output. The tool reads after work has returned, so its events
// must fit into its buffers. Then Live runs the tool once more as a program that gets a
// Ctrl-C at its start line and must end with status 0; for that the test's TestCommandLine
// has to call CommandLine. Live skips the test, with the reason, if this machine cannot
// trace. The tool does not trace its own process, which is the test's: use a Child for the
// work.
func Live(t *testing.T, run Run, args []string, work func()) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	plain := args
	if *record != "" {
		dir := *record
		if strings.HasSuffix(dir, "/") { // one directory for each package that a guest tests
			dir += strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
		}
		args = append([]string{"-record", dir}, args...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	traced := false
	var out bytes.Buffer
	ctx = tool.OnStart(ctx, func() { traced = true; work(); cancel() })
	err := run(ctx, args, tool.NewOutput(&out))
	var mistake *ir.Error
	switch {
	case !traced:
		if !errors.As(err, &mistake) { // a mistake in the program is no reason to skip
			testenv.SkipUnsupported(t, err)
		}
		t.Fatalf("%v ended before it traced: %v\n%s", args, err, out.String())
	case err != nil:
		t.Fatalf("%v: %v", args, err)
	}
	interruptEarly(t, plain)
	return out.String()
}

// Objects decodes the output of a tool with -json, one object from each line.
func Objects[T any](t *testing.T, out string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(out) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		all = append(all, v)
	}
	return all
}

// LeftOut returns the number of probe firings that the kernel left out, from the output of a
// tool with -json. The kernel leaves out a program that fires while another one runs on the
// same CPU, such as one of another test. A test's counts may be too small by that number.
func LeftOut(t *testing.T, out string) (n uint64) {
	t.Helper()
	for _, l := range Objects[struct{ Lost tool.Lost }](t, out) {
		n += l.Lost.Firings
	}
	return n
}

// workEnv is the environment variable with the name of a Child's work.
const workEnv = "TOOLTEST_WORK"

// A Child works on its main thread, which has the process's id. The main goroutine is only
// sure to run on that thread while packages are initialised.
func init() {
	if os.Getenv(workEnv) != "" {
		runtime.LockOSThread()
	}
}

// Main is for TestMain: it runs the tests, and fails if they left a file or a goroutine. In a
// process that Start started it does the Child's work instead.
func Main(m *testing.M, works map[string]func()) {
	if name := os.Getenv(workEnv); name != "" {
		os.Stdin.Read(make([]byte, 1))
		works[name]()
		os.Stdout.Write([]byte{'\n'})
		os.Stdin.Read(make([]byte, 1)) // stays until the test ends, so that its memory can be read
		return
	}
	testenv.Main(m)
}

// Child is a process that waits to do some work.
type Child struct {
	// PID is the Child's process id.
	PID int

	t        *testing.T
	cmd      *testenv.Cmd
	to, from *os.File
}

// Start starts a process that does the named work, one of the works passed to Main, when Work
// is called. The process ends with the test. Go's runtime sends it no signals to preempt
// goroutines, which would interrupt system calls of the work.
func Start(t *testing.T, work string) *Child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, exe, workEnv+"="+work, testenv.NoPreemption())
}

// StartProgram starts another program as a Child. The program has to read a byte of its
// standard input, work, write a byte to its standard output, and read again.
func StartProgram(t *testing.T, path string) *Child {
	t.Helper()
	return start(t, path)
}

// start starts a Child with additions to this process's environment.
func start(t *testing.T, path string, env ...string) *Child {
	t.Helper()
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(errors.Join(err, to.Close()))
	}
	defer out.Close()
	c := &Child{t: t, cmd: testenv.Command(t, path), to: to, from: from}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, os.Stderr
	t.Cleanup(func() { to.Close(); from.Close() })
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	c.PID = c.cmd.Process.Pid
	return c
}

// Work makes the process do its work, and returns when it is done.
func (c *Child) Work() {
	c.t.Helper()
	if _, err := c.to.Write([]byte{'\n'}); err != nil {
		c.t.Errorf("begin work: %v", err)
	}
	if _, err := c.from.Read(make([]byte, 1)); err != nil {
		c.t.Errorf("the child ended in its work: %v", err)
	}
}

// Interrupted runs the tool with a context that has already ended, as after a Ctrl-C before
// anything is attached, and returns its output, which must contain the summary. It needs
// root.
func Interrupted(t *testing.T, run Run, args ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, args, tool.NewOutput(&out)); err != nil {
		testenv.SkipUnsupported(t, err)
		t.Fatalf("%v: %v", args, err)
	}
	return out.String()
}

// CommandLine tests the common features of tools that need no kernel: -h prints the flags and
// at least two examples in less than 80 columns, bad flags print one line and give status 2,
// and the commands in ../README.md, if that file exists, are without such mistakes. If the
// test does not run as root, they must print one line that they need root, and give status 1.
// name is the tool's name.
func CommandLine(t *testing.T, name string, run Run) {
	t.Helper()
	if args := os.Getenv(mainEnv); args != "" {
		runMain(t, name, run, args)
		return
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"-h"}, tool.NewOutput(&out))
	if !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	help := out.String()
	_, examples, ok := strings.Cut(help, "\nExamples:\n")
	if n := len(regexp.MustCompile(`(?m)^  `+name).FindAllString(examples, -1)); !ok || n < 2 {
		t.Errorf("-h has %d examples:\n%s", n, help)
	}
	for line := range strings.Lines(help) {
		if len(line) > 80 {
			t.Errorf("-h is wider than 79 columns: %q", line)
		}
	}
	for _, f := range []string{"-json", "-record DIR", "-replay DIR", "-requires", "-v"} {
		if !strings.Contains(help, "\n  "+f+" ") {
			t.Errorf("-h does not list %s", f)
		}
	}
	for _, bad := range [][]string{{"-no-such-flag"}, {"-replay", "a", "-record", "b"}} {
		err := run(t.Context(), bad, tool.NewOutput(&out))
		var stderr bytes.Buffer
		if status := cli.Status(name, err, &stderr); status != 2 ||
			strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%v: status %d, %q", bad, status, stderr.String())
		}
	}
	none := []string{"-replay", filepath.Join(t.TempDir(), "none")}
	if run(t.Context(), none, tool.NewOutput(&out)) == nil {
		t.Error("a recording that is not there replays")
	}
	pageCommands(t, name, run)
}

// pageCommands parses the tool's commands in ../README.md. It replays an empty recording with
// them, so that nothing is attached.
func pageCommands(t *testing.T, name string, run Run) {
	page, err := os.ReadFile("../README.md")
	if errors.Is(err, fs.ErrNotExist) {
		return // another module's tool, or a guest, which has no sources
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rec, err := recording.Create(dir, &recording.Meta{Tool: name})
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)go run (?:-exec sudo )?\\./examples/" + name +
		"( [^`\n]*)?(?:`|$)")
	for _, m := range command.FindAllStringSubmatch(string(page), -1) {
		args := []string{"-replay", dir}
		for _, a := range words.FindAllString(m[1], -1) {
			args = append(args, strings.Trim(output.ReplaceAllString(a, "1"), "'"))
		}
		needsRoot(t, name, run, args[2:])
		err := run(t.Context(), args, tool.NewOutput(io.Discard))
		if cli.Status(name, err, io.Discard) == 2 {
			t.Errorf("../README.md: %s: %v", m[0], err)
		}
	}
}

// words matches a shell's words: quoted, the output of a command, or plain.
var words = regexp.MustCompile(`'[^']*'|\$\([^)]*\)|[^ ]+`)

// output matches a command's output, which is a process id in all examples.
var output = regexp.MustCompile(`^\$\(.*\)$`)
