package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/vmtest/wire"
)

// module is this module's path.
const module = "github.com/borescope/borescope"

// Package is the go command's information about a package.
type Package struct {
	ImportPath, Name, Dir     string
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
}

// Rel returns the package's path in the module, "." for the root.
func (p *Package) Rel() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// HasTests reports whether the package has test files for the architecture for which it was
// listed.
func (p *Package) HasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// testdata returns the directories that the package's tests may read, by their paths in the
// module: its own testdata, and those of the module's packages that the tests import.
func (p *Package) testdata() map[string]string {
	root := strings.TrimSuffix(p.Dir, filepath.FromSlash(p.Rel()))
	rels := []string{p.Rel()}
	for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
		if rel, ok := strings.CutPrefix(imported, module+"/"); ok {
			rels = append(rels, rel)
		}
	}
	dirs := map[string]string{}
	for _, rel := range rels {
		if dir := filepath.Join(root, rel, "testdata"); exists(dir) {
			dirs[rel+"/testdata"] = dir
		}
	}
	return dirs
}

// List expands package patterns for Linux on an architecture.
func List(arch string, patterns ...string) ([]Package, error) {
	args := append([]string{
		"list",
		"-json=ImportPath,Name,Dir,TestGoFiles,XTestGoFiles,TestImports,XTestImports",
	}, patterns...)
	out, err := goCommand(arch, args...)
	if err != nil {
		return nil, err
	}
	var ps []Package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps, nil
		} else if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
}

// Build builds a static program for a guest.
func Build(to, pkg, arch string) error {
	_, err := goCommand(arch, "build", "-o", to, pkg)
	return err
}

// BuildTest builds a package's static test binary. Those of the many examples are built
// without DWARF, because their tests do not read it.
func BuildTest(to, pkg, arch string) error {
	args := []string{"test", "-c", "-o", to, pkg}
	if strings.Contains(pkg, "/examples/") {
		args = slices.Insert(args, 2, "-ldflags=-w")
	}
	_, err := goCommand(arch, args...)
	return err
}

func goCommand(arch string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return out, nil
}

// Tests contains test binaries for one architecture, built once for all kernels.
type Tests struct {
	arch     string
	packages []Package
	binaries map[string]string // import path to file
}

// BuildTests builds the test binaries of all matching packages that have tests, into dir. The
// error contains those that do not build; the others are returned even then.
func BuildTests(dir, arch string, patterns ...string) (*Tests, error) {
	all, err := List(arch, patterns...)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p Package) bool { return !p.HasTests() })
	errs := make([]error, len(all))
	t := &Tests{arch: arch, binaries: map[string]string{}}
	// It builds two at a time, because the linker, which takes most of the time, uses little
	// more than one CPU.
	slots := make(chan struct{}, 2)
	var builds sync.WaitGroup
	for i, p := range all {
		to := filepath.Join(dir, arch, strings.ReplaceAll(p.Rel(), "/", "_")+".test")
		t.binaries[p.ImportPath] = to
		slots <- struct{}{}
		builds.Go(func() {
			defer func() { <-slots }()
			errs[i] = BuildTest(to, p.ImportPath, arch)
		})
	}
	builds.Wait()
	for i, p := range all {
		if errs[i] == nil {
			t.packages = append(t.packages, p)
		}
	}
	return t, errors.Join(errs...)
}

// Packages returns the packages that have tests.
func (t *Tests) Packages() []Package { return slices.Clone(t.packages) }

// Only returns the tests of these packages, given by their paths in the module.
func (t *Tests) Only(rels []string) *Tests {
	few := &Tests{arch: t.arch, binaries: t.binaries}
	for _, p := range t.packages {
		if slices.Contains(rels, p.Rel()) {
			few.packages = append(few.packages, p)
		}
	}
	return few
}

// AddTo adds a job for each package to a run: the binary, with the package's testdata as under
// go test, and the flags ("-test.run=X").
func (t *Tests) AddTo(o *Options, timeout time.Duration, flags ...string) {
	if o.Files == nil {
		o.Files = map[string]string{}
	}
	for _, p := range t.packages {
		bin := t.binaries[p.ImportPath]
		inGuest := "/test/" + filepath.Base(bin)
		dir := "/src/" + p.Rel()
		o.Files[inGuest] = bin
		for rel, testdata := range p.testdata() {
			o.Files["/src/"+rel] = testdata
		}
		argv := []string{inGuest, "-test.v", "-test.timeout=" + (timeout - 10*time.Second).String()}
		o.Jobs = append(o.Jobs, wire.Job{
			Name: p.Rel(), Argv: append(argv, flags...), Dir: dir,
			Env: Environment(o), Timeout: timeout,
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Environment returns the environment of a job in the guest.
func Environment(o *Options) []string {
	return append([]string{
		"PATH=/bin:/usr/bin:/sbin:/usr/sbin:/vmtest", "HOME=/root", "USER=root", "TMPDIR=/tmp",
		"LANG=C.UTF-8", "BORESCOPE_GUEST=" + o.Kernel.Version, "BORESCOPE_LONG=1",
	}, o.Env...)
}
