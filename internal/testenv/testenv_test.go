//go:build unix

package testenv_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// kept holds what the tests below leave behind on purpose.
var kept []*os.File

// child runs one test of this binary in a process of its own, with a role for
// it to play, and returns its output and whether it succeeded.
func child(t *testing.T, test, role string) (string, bool) {
	t.Helper()
	cmd := testenv.Command(t, os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TESTENV_ROLE="+role)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

func role() string { return os.Getenv("TESTENV_ROLE") }

func TestLeaksAreFound(t *testing.T) {
	switch role() {
	case "fd":
		testenv.Need(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r, w)
		return
	case "goroutine":
		go func() { select {} }()
		return
	case "nothing":
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		w.Close()
		return
	}
	for role, want := range map[string]string{
		"fd":        "pipe:[",
		"goroutine": "TestLeaksAreFound.func",
		"nothing":   "",
	} {
		out, ok := child(t, "TestLeaksAreFound", role)
		if ok != (want == "") || !strings.Contains(out, want) {
			t.Errorf("%s: ok %v:\n%s", role, ok, out)
		}
		if attributed := "which appeared during TestLeaksAreFound (testenv_test.go:"; role == "fd" && !strings.Contains(out, attributed) {
			t.Errorf("%s: does not say where:\n%s", role, out)
		}
	}
}

func TestSkipsAreProven(t *testing.T) {
	refusal := func(since, hint string) error {
		return &feature.UnsupportedError{Feature: "x", Since: since, Hint: hint}
	}
	errs := map[string]error{
		"no-cause":     refusal("4.1", ""),
		"wrong-option": refusal("4.1", "CONFIG_BPF is not set"),
		"wrong-age":    refusal("4.1", "Linux 6 is too old"),
		"no-pmu":       refusal("", "this machine has no PMU"),
		"too-new":      refusal("99.0", ""),
		"other":        errors.New("not about support"),
		"none":         nil,
	}
	if r := role(); r != "" {
		testenv.SkipUnsupported(t, errs[r])
		return
	}
	if _, err := feature.KernelConfig("BPF"); err != nil {
		delete(errs, "wrong-option") // can't be checked here
	}
	for name := range errs {
		out, ok := child(t, "TestSkipsAreProven", name)
		skipped := strings.Contains(out, testenv.SkipPrefix)
		switch name {
		case "no-pmu", "too-new":
			if !ok || !skipped {
				t.Errorf("%s does not skip:\n%s", name, out)
			}
		case "other", "none":
			if !ok || skipped {
				t.Errorf("%s: ok %v:\n%s", name, ok, out)
			}
		default:
			if ok {
				t.Errorf("%s is accepted as a reason:\n%s", name, out)
			}
		}
	}
}

// An error is a reason to skip only if it says what is missing.
func TestGotIsProven(t *testing.T) {
	said := fmt.Errorf("exit status 1: prog.c:1:10: fatal error: sys/sdt.h: No such file or directory")
	reqs := map[string]testenv.Requirement{
		"missing":   testenv.Got("x", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}),
		"said":      testenv.Got("x", said, testenv.NoSDT...),
		"not said":  testenv.Got("x", said, "cannot find -lc"),
		"any other": testenv.Got("x", errors.New("exit status 1")),
	}
	if r := role(); r != "" {
		testenv.Need(t, reqs[r])
		return
	}
	for name := range reqs {
		out, ok := child(t, "TestGotIsProven", name)
		proven := name == "missing" || name == "said"
		if ok != proven || strings.Contains(out, testenv.SkipPrefix) != proven {
			t.Errorf("%s: ok %v:\n%s", name, ok, out)
		}
	}
}

func TestNeedNamesAllThatIsMissing(t *testing.T) {
	if role() != "" {
		testenv.Need(t, testenv.Tool("no-such-tool"), testenv.CPUs(1), testenv.CPUs(1<<20),
			testenv.File("/no/such/file"), testenv.Arch(runtime.GOARCH), testenv.Arch("pdp11", "vax"),
			testenv.Got("cake", nil), testenv.Missing("tea", "sold out"))
		return
	}
	out, ok := child(t, "TestNeedNamesAllThatIsMissing", "need")
	for _, want := range []string{
		testenv.SkipPrefix + "tool no-such-tool: not found; 1048576 CPUs: there are ",
		"; /no/such/file: no such file or directory; pdp11 or vax: this is " + runtime.GOARCH + "; tea: sold out",
	} {
		if !ok || !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestForeignCheckout: a program that a test builds in a checkout of another user's is built. The
// go command asked git for the repository's state, and git refuses to tell it.
func TestForeignCheckout(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Go, testenv.Tool("git"))
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n", "main.go": "package main\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) ([]byte, error) {
		cmd := testenv.Command(t, name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GOENV=off")
		return cmd.CombinedOutput()
	}
	if out, err := run("git", "init", "-q"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("git", "status"); err == nil {
		t.Fatalf("git tells: %s", out)
	}
	if out, err := run("go", "build", "-o", filepath.Join(dir, "x"), "."); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
