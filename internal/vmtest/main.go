// Command vmtest runs the project's tests, or any static program, in QEMU guests on Debian's
// own kernels. It needs neither KVM nor root.
//
//	go run ./internal/vmtest -kernel 6.12 ./probe ./mapx
//	go run ./internal/vmtest -kernel 5.10,6.1 -run TestAttach ./probe/...
//	go run ./internal/vmtest -kernel 6.1 -arch arm64 ./pmc
//	go run ./internal/vmtest -kernel 5.10 -cmd ./examples/profile -exec 'profile -d 3s -f'
//	go run ./internal/vmtest -debian bookworm:bpftrace -exec "bpftrace -e 'BEGIN { exit() }'"
//
// It streams the guest's output, and fails if a test fails, if a job leaves a program, map,
// link, pin or tracefs event in the kernel, if the kernel warns, oopses or panics, or if it
// times out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vmtest:", err)
		os.Exit(1)
	}
}

// list is a flag that may be given more than once, with values separated by commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, strings.Split(s, ",")...)
	return nil
}

type config struct {
	kernels, modules, disks, files, bins, cmds list
	execs, env                                 verbatim
	arch, run, flags, out, debian              string
	timeout                                    time.Duration
	patterns                                   []string
	guest                                      guest.Options
}

// verbatim is a flag that may be given more than once, with values that may contain commas.
type verbatim []string

func (v *verbatim) String() string { return strings.Join(*v, "; ") }

func (v *verbatim) Set(s string) error {
	*v = append(*v, s)
	return nil
}

func parse(args []string) (*config, error) {
	c := new(config)
	f := flag.NewFlagSet("vmtest", flag.ContinueOnError)
	f.Var(&c.kernels, "kernel",
		"kernel `versions`, of "+strings.Join(kernel.Versions(), ", ")+" (default 6.12)")
	f.StringVar(&c.arch, "arch", runtime.GOARCH, "amd64 or arm64")
	f.StringVar(&c.run, "run", "", "run only tests that match this `pattern`")
	f.StringVar(&c.flags, "flags", "",
		"further `flags` for the test binaries, \"-test.short -update\"")
	f.DurationVar(&c.timeout, "timeout", 5*time.Minute, "time limit of each package or command")
	f.Var(&c.cmds, "cmd", "build this main `package` and put it into the guest's /bin")
	f.Var(&c.bins, "bin", "put this static `program` into the guest's /bin")
	f.Var(&c.execs, "exec", "run this `command` after the tests; words may be 'quoted' (repeatable)")
	f.Var(&c.env, "env", "add `NAME=VALUE` to the environment of tests and commands (repeatable)")
	f.Var(&c.files, "file", "put a file or directory into the guest, `GUEST:HERE`")
	f.StringVar(&c.out, "out", "", "receive the guest's /out in this `directory`")
	f.StringVar(&c.guest.SMP, "smp", "2", "QEMU's -smp, for example 8,maxcpus=64")
	f.IntVar(&c.guest.Nodes, "nodes", 0, "this `many` NUMA nodes, of one CPU each, instead of -smp")
	f.IntVar(&c.guest.MemoryMiB, "memory", 1024, "guest memory in `MiB`, besides what the files take")
	f.StringVar(&c.guest.Threads, "threads", "",
		"QEMU's `threads`: single, or multi, one for each CPU (default single)")
	f.StringVar(&c.guest.Append, "append", "", "further kernel `arguments`")
	f.Var(&c.modules, "mod", "load these kernel `modules` first")
	f.Var(&c.disks, "disk", "attach a raw disk `image` as /dev/vda and so on; writes are dropped")
	f.StringVar(&c.debian, "debian", "",
		"run -exec in a Debian system with packages, `SUITE:PACKAGE,PACKAGE`; -cmd and -bin are in its /vmtest")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	c.patterns = f.Args()
	if len(c.kernels) == 0 {
		c.kernels = list{"6.12"}
	}
	if len(c.patterns) == 0 && len(c.execs) == 0 {
		return nil, errors.New("nothing to run: give packages, or -exec (see -help)")
	}
	return c, nil
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	c, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "vmtest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var tests *guest.Tests
	if len(c.patterns) > 0 {
		if tests, err = guest.BuildTests(tmp, c.arch, c.patterns...); err != nil {
			return err
		}
		if len(tests.Packages()) == 0 {
			return fmt.Errorf("no tests in %s", strings.Join(c.patterns, " "))
		}
	}
	programs, err := c.programs(tmp)
	if err != nil {
		return err
	}
	var failed []string
	for _, version := range c.kernels {
		ok, err := c.runOn(ctx, version, tests, programs, stdout)
		if err != nil {
			return err
		}
		if !ok {
			failed = append(failed, version)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed on %s %s", c.arch, strings.Join(failed, ", "))
	}
	return nil
}

// programs builds the programs for the guest's /bin, and returns the guest's files by path.
func (c *config) programs(tmp string) (map[string]string, error) {
	files := map[string]string{}
	for _, pkg := range c.cmds {
		name := path.Base(filepath.ToSlash(pkg))
		to := filepath.Join(tmp, "bin-"+name)
		if err := guest.Build(to, pkg, c.arch); err != nil {
			return nil, err
		}
		files["/bin/"+name] = to
	}
	for _, bin := range c.bins {
		files["/bin/"+filepath.Base(bin)] = bin
	}
	for _, f := range c.files {
		to, from, ok := strings.Cut(f, ":")
		if !ok || !path.IsAbs(to) {
			return nil, fmt.Errorf("-file %s: want /GUEST/PATH:HERE", f)
		}
		files[path.Clean(to)] = filepath.Clean(from)
	}
	return files, nil
}

func (c *config) runOn(ctx context.Context, version string, tests *guest.Tests,
	programs map[string]string, stdout io.Writer,
) (bool, error) {
	k, err := kernel.Get(version, c.arch)
	if err != nil {
		return false, err
	}
	o := c.guest
	o.Kernel, o.Modules, o.Disks, o.Out, o.Log = k, c.modules, c.disks, c.out, stdout
	o.Env = c.env
	o.Files = map[string]string{}
	for to, from := range programs {
		o.Files[to] = from
	}
	if c.debian != "" {
		suite, packages, _ := strings.Cut(c.debian, ":")
		if o.Root, err = kernel.DebianImage(suite, c.arch,
			strings.FieldsFunc(packages, func(r rune) bool {
				return r == ','
			})...); err != nil {
			return false, err
		}
	}
	if tests != nil {
		flags := strings.Fields(c.flags)
		if c.run != "" {
			flags = append(flags, "-test.run="+c.run)
		}
		tests.AddTo(&o, c.timeout, flags...)
	}
	for _, line := range c.execs {
		argv, err := split(line)
		if err != nil {
			return false, err
		}
		j := wire.Job{
			Name: line, Argv: argv, Dir: "/root", Env: guest.Environment(&o),
			Timeout: c.timeout,
		}
		if o.Root != "" {
			j.Chroot = guest.RootDir
		}
		o.Jobs = append(o.Jobs, j)
	}
	r, err := guest.Run(ctx, o)
	if err != nil {
		return false, err
	}
	Print(stdout, k, r)
	return r.OK(), nil
}

// split splits a command line at spaces. Words may be in single or double quotes.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, inWord := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && r == ' ':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("unfinished quote in %q", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("empty command")
	}
	return words, nil
}

// Print prints the summary of a run.
func Print(w io.Writer, k *kernel.Kernel, r *guest.Report) {
	fmt.Fprintf(w, "\n=== %s (%s), %.1f s\n", k, r.Release, r.Wall.Seconds())
	for i := range r.Jobs {
		j := &r.Jobs[i]
		verdict := "ok"
		if !j.OK() {
			verdict = "FAIL"
		}
		n := testlog.Count(j.Tests)
		fmt.Fprintf(w, "%-4s %s (%.1f s): %d passed, %d failed, %d skipped", verdict, j.Name,
			j.Took.Seconds(), n.Passed, n.Failed, n.Skipped)
		if j.Status != "0" {
			fmt.Fprintf(w, ", ended with %s", j.Status)
		}
		fmt.Fprintln(w)
		printDetails(w, j)
	}
	if r.Trouble != "" {
		fmt.Fprintf(w, "FAIL guest: %s\n", r.Trouble)
	}
}

func printDetails(w io.Writer, j *guest.JobReport) {
	for _, t := range j.Tests {
		switch t.Status {
		case testlog.Fail:
			fmt.Fprintf(w, "     failed  %s\n", t.Name)
		case testlog.Skip:
			fmt.Fprintf(w, "     skipped %s: %s\n", t.Name, t.Reason)
		}
	}
	for _, l := range j.Left {
		fmt.Fprintf(w, "     left behind: %s\n", l)
	}
	for _, l := range slices.Compact(j.Warnings) {
		fmt.Fprintf(w, "     kernel: %s\n", l)
	}
}
