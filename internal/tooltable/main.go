// Command tooltable runs the live tests of the tools below examples on several kernels, and
// writes the results into the table of examples/KERNELS.md.
//
//	go run ./internal/tooltable                             # all: half an hour
//	go run ./internal/tooltable -on 6.12,arm64-6.12 tcptop filetop
//
// Places are native, which is this machine as root, and the guests of internal/vmtest: 5.10,
// 6.1, 6.12 and arm64-6.12. Cells of other places and tools are not changed. It fails if a
// test fails.
package main

import (
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
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/guest"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "tooltable:", err)
		os.Exit(1)
	}
}

// places are the columns, in order.
var places = []string{"native", "5.10", "6.1", "6.12", "arm64-6.12"}

// These lists contain tools that need more of a guest than its kernel: an ext4 file system on
// /dev/vda, Debian's programs and C library, or two NUMA nodes.
var (
	disk   = []string{"biolatency", "biosnoop", "ext4slower"}
	debian = []string{"bashreadline", "execsnoop", "gethostlatency", "memleak"}
	nodes  = []string{"numamove"}
)

// programs lists the Debian packages that the tools in debian need.
var programs = []string{"dash", "libc-bin", "gcc", "libc6-dev"}

// tests contains the live tests that have another name.
var tests = map[string]string{
	"capture": "^TestCapture$", "perfstat": "^TestStops$",
	"profile": "^TestAttribution$", "tick": "^TestRun$",
}

// table is the table that is being updated.
type table struct {
	out    io.Writer
	page   *page
	file   string
	failed []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("tooltable", flag.ContinueOnError)
	on := f.String("on", strings.Join(places, ","), "run in these `places`")
	t := &table{out: out}
	f.StringVar(&t.file, "page", "examples/KERNELS.md", "the `file` with the table")
	if err := f.Parse(args); err != nil {
		return err
	}
	tools := f.Args()
	if len(tools) == 0 {
		var err error
		if tools, err = allTools(); err != nil {
			return err
		}
	}
	var err error
	if t.page, err = readPage(t.file); err != nil {
		return err
	}
	var arch string
	var built *guest.Tests
	for _, place := range strings.Split(*on, ",") {
		if !slices.Contains(places, place) {
			return fmt.Errorf("unknown place %q: want one of %s", place, strings.Join(places, ", "))
		}
		if place == "native" {
			err = t.native(ctx, tools)
		} else {
			if _, a, _ := kernel.Of(place); a != arch {
				arch = a
				tmp, err := os.MkdirTemp("", "tooltable")
				if err != nil {
					return err
				}
				defer os.RemoveAll(tmp)
				if built, err = guest.BuildTests(tmp, arch, folders(tools)...); err != nil {
					return err
				}
			}
			err = t.guests(ctx, place, tools, built)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	if len(t.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(t.failed, ", "))
	}
	return nil
}

// allTools returns the directories with a live test.
func allTools() ([]string, error) {
	files, err := filepath.Glob("examples/*/*_test.go")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(filepath.Dir(file))
		if strings.Contains(string(b), "func TestLive(") || tests[name] != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no tools: run it at the root of the module")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func folders(tools []string) (dirs []string) {
	for _, name := range tools {
		dirs = append(dirs, "./examples/"+name)
	}
	return dirs
}

// testsOf returns the pattern for a tool's live tests.
func testsOf(tool string) string {
	if run := tests[tool]; run != "" {
		return run
	}
	return "^TestLive"
}

func (t *table) native(ctx context.Context, tools []string) error {
	if os.Getuid() != 0 {
		return errors.New("live tests need root")
	}
	for _, tool := range tools {
		var p testlog.Parser
		cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-run", testsOf(tool),
			"./examples/"+tool)
		cmd.Stdout, cmd.Stderr = &p, &p
		err := cmd.Run()
		if err != nil && testlog.Count(p.Results()).Failed == 0 {
			return fmt.Errorf("%s: %w\n%s", tool, err, p.Tail())
		}
		t.set(tool, "native", p.Results(), p.Tail())
	}
	return t.page.write(t.file)
}

// perGuest is the number of tools that share a guest: less than four minutes of work on a slow
// host.
const perGuest = 24

func (t *table) guests(ctx context.Context, place string, tools []string,
	built *guest.Tests,
) error {
	version, arch, _ := kernel.Of(place)
	k, err := kernel.Get(version, arch)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(tools, perGuest) {
		o, err := options(k, some, built)
		if err != nil {
			return err
		}
		r, err := boot(ctx, o)
		if err != nil {
			return err
		}
		if err := t.report(place, r); err != nil {
			return err
		}
	}
	return nil
}

// options returns the options of a guest with what these tools need.
func options(k *kernel.Kernel, tools []string, built *guest.Tests) (guest.Options, error) {
	o := guest.Options{Kernel: k}
	need := func(list []string) bool {
		return slices.ContainsFunc(tools, func(tool string) bool { return slices.Contains(list, tool) })
	}
	if need(disk) {
		image, err := emptyExt4()
		if err != nil {
			return o, err
		}
		o.Disks, o.Modules = []string{image}, []string{"crc32c_generic", "ext4"}
	}
	if need(debian) {
		var err error
		if o.Root, err = kernel.DebianImage("trixie", k.Arch, programs...); err != nil {
			return o, err
		}
	}
	if need(nodes) {
		o.Nodes = 2
	}
	for _, tool := range tools {
		built.Only([]string{"examples/" + tool}).AddTo(&o, 3*time.Minute, "-test.run="+testsOf(tool))
		if slices.Contains(debian, tool) {
			inChroot(&o, &o.Jobs[len(o.Jobs)-1])
		}
	}
	return o, nil
}

// inChroot makes a job run in the Debian system, in which the guest's /bin is /vmtest.
func inChroot(o *guest.Options, j *wire.Job) {
	name := filepath.Base(j.Argv[0])
	o.Files["/bin/"+name] = o.Files[j.Argv[0]]
	delete(o.Files, j.Argv[0])
	j.Argv[0], j.Dir, j.Chroot = "/vmtest/"+name, "/root", guest.RootDir
}

// boot runs a guest. A guest that fails as a whole is an error.
func boot(ctx context.Context, o guest.Options) (*guest.Report, error) {
	r, err := guest.Run(ctx, o)
	if err == nil && r.Trouble != "" {
		err = errors.New(r.Trouble)
	}
	return r, err
}

// report records the results of a guest.
func (t *table) report(place string, r *guest.Report) error {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		tool := strings.TrimPrefix(j.Name, "examples/")
		if !j.OK() && testlog.Count(j.Tests).Failed == 0 {
			j.Tests = append(j.Tests, testlog.Result{Name: strings.Join(append([]string{j.Status},
				append(j.Left, j.Warnings...)...), " "), Status: testlog.Fail})
		}
		t.set(tool, place, j.Tests, j.Tail)
	}
	return t.page.write(t.file)
}

// set records and prints the results of a tool.
func (t *table) set(tool, place string, results []testlog.Result, tail string) {
	c, failed := verdict(results)
	t.page.set(tool, place, c)
	fmt.Fprintf(t.out, "%-16s %-11s %s\n", tool, place, c)
	if failed {
		t.failed = append(t.failed, tool+" on "+place)
		fmt.Fprintln(t.out, tail)
	}
}

// emptyExt4 returns the path of an image with an empty file system.
func emptyExt4() (string, error) {
	cache, err := kernel.CacheDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(cache, "tooltable.ext4")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	cmd := exec.Command("mkfs.ext4", "-q", name+".new", "32M")
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/sbin:/usr/sbin")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mkfs.ext4: %w\n%s", err, out)
	}
	return name, os.Rename(name+".new", name)
}
