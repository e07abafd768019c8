// Command bttest runs bpftrace's own runtime suite with bt, and prints for each case whether it passes:
//
//	go -C internal/bench run ./bttest -suite DIR [-keep WORK]   # DIR is a checkout of 0.26.1; as root
//	go -C internal/bench run ./bttest -table FILE… > SUITE.md   # what runs printed, as a table
//
// A case passes, fails, needs what this machine does not have, or needs a form that programs of scripts
// do not have yet; then the cause is printed. WORK gets the programs of the suite, and bt by the name
// bpftrace. With it, guests of internal/vmtest run what cannot be run here, or must not be:
//
//	go run ./internal/vmtest … -bin BTTEST -file /bin/suite:WORK -file /bin/rows:FILE -exec 'bttest -in /vmtest/suite -rest /vmtest/rows'
//
// The suite is not part of this project: it is only read, and its programs are built where it is run.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// options holds the flags.
type options struct {
	suite, keep, bt, in, rest string
	only                      *regexp.Regexp
	table, verbose, inside    bool
	slow                      int
}

func main() {
	runtime.LockOSThread() // processes end with the thread that started them
	if name := filepath.Base(os.Args[0]); slices.Contains(shims, name) {
		os.Exit(shim(name, os.Args[1:]))
	}
	var o options
	var only string
	flag.StringVar(&o.suite, "suite", "", "the `folder` with bpftrace's sources")
	flag.StringVar(&o.keep, "keep", "", "put what is built into this `folder`, and leave it there")
	flag.StringVar(&o.bt, "bt", "", "the `program` bt; without it, it is built")
	flag.StringVar(&o.in, "in", "", "run what is in this `folder`, of -keep")
	flag.StringVar(&o.rest, "rest", "", "run only the cases that are not here in what a run printed to this `file`")
	flag.StringVar(&only, "run", "", "run only the cases, as FILE.NAME, that match this `pattern`")
	flag.IntVar(&o.slow, "slow", 1, "multiply times by this `factor`")
	flag.BoolVar(&o.verbose, "v", false, "print the output of cases that fail")
	flag.BoolVar(&o.table, "table", false, "print the table of what runs printed")
	flag.BoolVar(&o.inside, "inside", false, "for -in's own use")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(only); err == nil {
		err = o.run()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) { // it has said why
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bttest:", err)
		os.Exit(1)
	}
}

func (o *options) run() error {
	switch {
	case o.table:
		all, err := readRows(flag.Args())
		if err == nil {
			all.print(os.Stdout)
		}
		return err
	case o.inside:
		return o.cases()
	case o.in != "":
		return again(o.in)
	case o.suite == "":
		return errors.New("give -suite, the folder with bpftrace's sources")
	}
	work := o.keep
	if work == "" {
		var err error
		if work, err = os.MkdirTemp("", "bttest"); err != nil {
			return err
		}
		defer os.RemoveAll(work)
	} else if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if err := stage(work, o.suite, o.bt); err != nil {
		return err
	}
	return again(work)
}

// again runs this program again, where nothing that it mounts or writes to /tmp remains.
func again(work string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append(slices.Clone(os.Args[1:]), "-inside", "-in", work)
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	alive, err := cmd.StdinPipe() // its end is that of this process
	if err != nil {
		return err
	}
	defer alive.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		for range stop {
			cmd.Process.Signal(syscall.SIGTERM) // it ends what it has started
		}
	}()
	return cmd.Wait()
}

// here is the folder in which the suite runs, in the namespace of mounts of the run.
const here = "/tmp/suite"

// settle mounts what tracers use, and the folder of the suite at a fixed path: the programs have it in
// their debug information.
func settle(work string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, work, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("mount %s: %w", work, err)
	}
	defer unix.Close(tree)
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /tmp: %w", err)
	}
	if err := os.Mkdir(here, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, here, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", here, err)
	}
	for dir, kind := range map[string]string{"/sys/kernel/tracing": "tracefs", "/sys/fs/bpf": "bpf"} {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			continue
		}
		if err := unix.Mount(kind, dir, kind, 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return os.Chdir(here)
}

// cases builds the programs that are not there yet, and runs the cases.
func (o *options) cases() error {
	var rest *rows
	var err error
	if o.rest != "" {
		if rest, err = readRows([]string{o.rest}); err != nil {
			return err
		}
	}
	// No case may take the machine's memory.
	limit := unix.Rlimit{Cur: mostMemory, Max: mostMemory}
	if err := cmp.Or(settle(o.in), adopt(), unix.Setrlimit(unix.RLIMIT_DATA, &limit)); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop <- os.Interrupt
	}()
	go func() {
		<-stop
		stopped.Store(true)
		killAll()
		os.Exit(1)
	}()
	if err := buildPrograms(here); err != nil {
		return err
	}
	all, err := readSuite(os.DirFS("runtime"))
	if err != nil {
		return err
	}
	p, err := newPlace(here)
	if err != nil {
		return err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	where := "here"
	if p.guest {
		where = "guest"
	}
	fmt.Printf("%s%s, Linux %s\n", placeLine, where, unix.ByteSliceToString(u.Release[:]))
	r := &runner{dir: here, slow: time.Duration(o.slow)}
	for _, c := range all {
		if !o.only.MatchString(c.file+"."+c.name) || rest != nil && rest.of[[2]string{c.file, c.name}].outcome != notHere {
			continue
		}
		v, res := verdict{notHere, p.lacks(r, c)}, result{}
		if v.cause == "" {
			res = r.run(c)
			v = p.judge(os.DirFS("."), c, r.text(c), &res)
		}
		fmt.Printf("%s%s\t%s\t%s\t%s\n", caseLine, c.file, c.name, v.outcome, oneLine(v.cause))
		if o.verbose && v.outcome == fails {
			show("$ ", c.command("bt"))
			show("| ", res.output)
		}
	}
	return nil
}

// show prints the first lines of a text.
func show(mark, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	const most = 40
	for i, l := range lines {
		if i == most {
			fmt.Printf("\t%s… and %d lines more\n", mark, len(lines)-most)
			return
		}
		fmt.Printf("\t%s%s\n", mark, l)
	}
}

// mostMemory is what each process may have for its data, in bytes.
const mostMemory = 3 << 30

// mostCause is the length of a cause in bytes.
const mostCause = 300

// oneLine makes a cause a field of a line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > mostCause {
		s = strings.ToValidUTF8(s[:mostCause], "") + "…"
	}
	return s
}
