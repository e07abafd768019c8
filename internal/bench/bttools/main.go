// Command bttools runs bpftrace's own tools as package script compiles them, each beside a process
// whose work it must see, and prints for each whether it did:
//
//	go -C internal/bench run ./bttools -scratch DISK DIR   # a folder of .bt files, as root
//	go -C internal/bench run ./bttools -table FILE…        # what runs printed, as a table by kernel
//
// A tool that needs what the machine does not have, such as a probe, a program or a disk, is left out
// with the cause. The disk loses all that is on it where the kernel has what mdflush, swapin or xfsdist
// see; natively a loop device will do. Status 1: a tool did not see what it must.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
)

func main() {
	work := flag.String("work", "", "be the process of the tool `NAME`")
	flag.StringVar(&scratch, "scratch", "", "a `DISK` to read and overwrite")
	page := flag.Bool("table", false, "print the table of what runs printed")
	flag.Parse()
	var err error
	switch {
	case *work != "":
		err = be(*work)
	case *page:
		err = table(os.Stdout, flag.Args())
	case flag.NArg() != 1:
		err = errors.New("give the folder of bpftrace's tools")
	default:
		err = run(flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bttools:", err)
		os.Exit(1)
	}
}

// run runs the tools of a folder.
func run(dir string) error {
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if tool, ok := strings.CutSuffix(name, ".bt"); ok {
			names = append(names, tool)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no .bt files in %s: %w", dir, err)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	fmt.Println("kernel", unix.ByteSliceToString(u.Release[:]))
	env := probe.NewEnv(nil)
	wrong := 0
	for _, name := range names {
		result := try(env, name, filepath.Join(dir, name+".bt"))
		if strings.HasPrefix(result, "WRONG") {
			wrong++
		}
		fmt.Printf("%s\t%s\n", name, result)
	}
	if wrong > 0 {
		return fmt.Errorf("%d tools did not see what they must", wrong)
	}
	return nil
}

// try runs a tool beside its process, and says what came of it.
func try(env *probe.Env, name, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "WRONG " + err.Error()
	}
	c, ok := cases[name]
	p, err := script.Compile(name, string(text), &script.Options{Env: env, Unsafe: true, Environ: func(name string) (string, bool) {
		if c.ignore && name == "BPFTRACE_MISSING_PROBES" {
			return "ignore", true
		}
		return "", false
	}})
	if err != nil {
		return "not here: " + firstLine(syntax.ErrorText(err))
	}
	if !ok {
		return "no work: it is not among those that are tried"
	}
	if err := attachable(env, p, c.needs); err != nil {
		return "not here: " + firstLine(err.Error())
	}
	if c.lacks != nil {
		if err := c.lacks(); err != nil {
			return "no work: " + err.Error()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, said bytes.Buffer
	pid := 0
	_, err = p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Quiet: true, Attached: func() error {
		cmd, err := start(name)
		if err != nil {
			return err
		}
		pid = cmd.Process.Pid
		go func() {
			err := cmd.Wait()
			if err != nil {
				fmt.Fprintf(os.Stderr, "bttools: the process of %s: %v\n", name, err)
			}
			time.Sleep(c.after)
			cancel()
		}()
		return nil
	}})
	var unsupported *probe.UnsupportedError
	switch {
	case errors.As(err, &unsupported), errors.Is(err, fs.ErrNotExist), err != nil && strings.Contains(err.Error(), "the kernel does not let"):
		return "not here: " + firstLine(err.Error())
	case err != nil:
		return "WRONG " + firstLine(err.Error())
	}
	for _, want := range c.want {
		want = strings.ReplaceAll(want, "PID", strconv.Itoa(pid))
		if !regexp.MustCompile("(?m)" + want).Match(out.Bytes()) {
			return fmt.Sprintf("WRONG nothing like %q in %q%q", want, tail(out.String()), said.String())
		}
	}
	return "seen: " + c.what
}

// attachable returns why a script that takes the probes that there are has none that matches an
// expression, nil if it has one.
func attachable(env *probe.Env, p *script.Program, needs string) error {
	if needs == "" {
		return nil
	}
	var refused error
	for _, name := range p.Probes() {
		if !regexp.MustCompile(needs).MatchString(name) {
			continue
		}
		alone, err := script.Compile("probe", name+" { }", &script.Options{Env: env})
		if err == nil {
			ctx, cancel := context.WithCancel(context.Background())
			_, err = alone.Run(ctx, &script.RunOptions{Stdout: io.Discard, Stderr: io.Discard, Attached: func() error {
				cancel()
				return nil
			}})
			cancel()
		}
		if err == nil {
			return nil
		}
		refused = cmp.Or(refused, err)
	}
	return cmp.Or(refused, errors.New("its script may lack probes, and has none like "+needs))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// tail returns the end of a text.
func tail(s string) string { return s[max(0, len(s)-2000):] }

// start starts the process of a tool, which waits a moment before it works.
func start(name string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "-scratch", scratch, "-work", name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}
