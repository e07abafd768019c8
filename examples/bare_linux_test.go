package examples_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// noTracers are the examples that read files, and those that wait for a process
// of a kind that a test may not have.
var noTracers = []string{"bt", "capture", "corestack", "elfnotes", "hist", "lsym", "orcdump", "replay", "symbolize", "tick", "javagc"}

// ofFiles are the tools that look for a program or a library: there is none in
// an empty root.
var ofFiles = []string{"bashreadline", "dbslower", "gethostlatency"}

// endless are the tools that end when they are told to: -v has them say that
// they are attached.
var endless = []string{"biosnoop", "tcpaccept", "tcpconnect", "tcpretrans"}

// arguments are what a tool is given that doesn't take "100ms 1", an interval
// and how often.
var arguments = map[string][]string{
	"argdist":        {"-d", "100ms", "-C", "t:sched:sched_switch args.next_pid"},
	"bashreadline":   {"-d", "100ms"},
	"biosnoop":       {"-v"},
	"characterize":   {"-d", "100ms", "t:sched:sched_switch args.next_pid"},
	"dbslower":       {"-d", "100ms", "postgres"},
	"execsnoop":      {"-d", "100ms"},
	"ext4slower":     {"-d", "100ms"},
	"funccount":      {"-d", "100ms", "t:sched:*"},
	"funclatency":    {"-d", "100ms", "vfs_read"},
	"gethostlatency": {"-d", "100ms"},
	"killsnoop":      {"-d", "100ms"},
	"llcstat":        {"100ms"},
	"offcputime":     {"100ms"},
	"oomkill":        {"-d", "100ms"},
	"opensnoop":      {"-d", "100ms"},
	"perfstat":       {"-e", "task-clock,sched:sched_switch", "--", "COMMAND"},
	"profile":        {"100ms"},
	"stackcount":     {"-D", "100ms", "t:sched:sched_switch"},
	"tcpaccept":      {"-v"},
	"tcpconnect":     {"-v"},
	"tcplife":        {"-d", "100ms"},
	"tcpretrans":     {"-v"},
	"tplist":         {},
	"trace":          {"-d", "100ms", "t:sched:sched_process_exec"},
	"tsa":            {"-p", "PID", "100ms", "1"},
	"wakeuptime":     {"100ms"},
}

// TestToolsOnABareMachine runs every tool where tracefs is mounted, where it is
// not, and from a root that holds nothing but /proc and /sys, and compares what
// becomes of it: it runs, or says the same of this kernel.
func TestToolsOnABareMachine(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tracefs, testenv.Go, testenv.Long)
	// Made, and removed, where nothing is mounted in it: /sys is no place to remove
	// files from.
	const rootVar = "BORESCOPE_BARE_ROOT"
	if os.Getenv(rootVar) == "" {
		t.Setenv(rootVar, t.TempDir())
	}
	if !testenv.OwnMounts(t) {
		return
	}
	// Tools attach to these, and ask nobody whose they are.
	testenv.OwnFiles(t, slices.Concat(testenv.Libc, testenv.Bash, []string{"/usr/lib/postgresql/*/bin/postgres"})...)
	root := os.Getenv(rootVar)
	buildTools(t, root, "./...")
	files, err := filepath.Glob(root + "/*")
	if err != nil || len(files) < 40 {
		t.Fatal(files, err)
	}
	var tools []string
	for _, f := range files {
		if name := filepath.Base(f); !slices.Contains(noTracers, name) {
			tools = append(tools, name)
		}
	}
	for _, dir := range []string{"/proc", "/sys"} {
		if err := errors.Join(os.Mkdir(root+dir, 0o755), unix.Mount(dir, root+dir, "", unix.MS_BIND|unix.MS_REC, "")); err != nil {
			t.Fatal(err)
		}
	}
	testenv.MountTracefs(t)
	want := runAll(t, tools, root, "")
	testenv.UnmountAll(t, "tracefs")
	testenv.UnmountAll(t, "debugfs")
	bare := runAll(t, tools, root, "")
	empty := runAll(t, tools, root, root)
	for _, name := range tools {
		if bare[name] != want[name] {
			t.Errorf("%s without tracefs: %s\nwith: %s", name, bare[name], want[name])
		}
		if empty[name] != want[name] && !slices.Contains(ofFiles, name) {
			t.Errorf("%s in an empty root: %s\noutside: %s", name, empty[name], want[name])
		}
	}
}

// runAll runs the tools, four at a time, and returns their statuses, with their
// errors where these are not 0.
func runAll(t *testing.T, tools []string, dir, root string) map[string]string {
	t.Helper()
	said := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, name := range tools {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			got := runTool(t, name, dir, root)
			mu.Lock()
			defer mu.Unlock()
			said[name] = got
		})
	}
	wg.Wait()
	return said
}

// runTool runs a tool to its end. Usage errors and signals are no answers.
func runTool(t *testing.T, name, dir, root string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // against one that hangs
	defer cancel()
	path := dir + "/" + name
	if root != "" {
		path = "/" + name
	}
	args, ok := arguments[name]
	if !ok {
		args = []string{"100ms", "1"}
	}
	args = slices.Clone(args)
	for i, a := range args {
		switch a {
		case "COMMAND": // one that is there in each root, and ends
			args = append(args[:i], path, "-check")
		case "PID":
			args[i] = strconv.Itoa(os.Getpid())
		}
	}
	cmd := testenv.CommandContext(ctx, t, path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if slices.Contains(endless, name) {
		cmd.Stderr = &interrupter{cmd, &stderr}
	}
	err := cmd.Run()
	if err == nil {
		return "ok"
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("%s %q: %v: %s", name, args, err, &stderr)
	}
	return err.Error() + ": " + stderr.String()
}

// interrupter ends a command once it has written something.
type interrupter struct {
	cmd *testenv.Cmd
	to  io.Writer
}

func (i *interrupter) Write(b []byte) (int, error) {
	i.cmd.Process.Signal(os.Interrupt)
	return i.to.Write(b)
}
