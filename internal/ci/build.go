package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/borescope/borescope/internal/testlog"
)

// platforms lists the platforms on which the module must build besides this one.
var platforms = []string{"linux/arm64", "darwin/arm64", "windows/amd64"}

// cross compiles the library and links one command for every platform. There it also vets,
// with their tests, the packages with files for one system or architecture, in a whole check
// all packages. Linking all commands would take minutes.
func cross(ctx context.Context, c *check) (testlog.Counts, error) {
	const library = `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`
	vetted := `{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}`
	if c.all {
		vetted = `{{.ImportPath}}`
	}
	var n testlog.Counts
	var errs []error
	for _, p := range platforms {
		goos, goarch, _ := strings.Cut(p, "/")
		env := []string{
			"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + goarch,
			// Go's cache has what another checkout built so: no path is in it.
			"GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath",
		}
		for _, do := range []struct {
			packages string
			args     []string
		}{{library, []string{"build", "./examples/profile"}}, {vetted, []string{"vet"}}} {
			var list strings.Builder
			err := c.execTo(ctx, &list, env, "go", "list", "-f", do.packages, "./...")
			if err == nil {
				err = c.exec(ctx, env, "go", append(do.args, strings.Fields(list.String())...)...)
			}
			if err != nil {
				n.Failed++
				errs = append(errs, errors.New(p+": "+err.Error()))
				continue
			}
			n.Passed++
		}
	}
	return n, errors.Join(errs...)
}

// benchModule is the module whose tests belong to the step compare: they need peers.
var benchModule = filepath.Join("internal", "bench")

// nested builds, vets and tests the nested modules.
func nested(ctx context.Context, c *check) (testlog.Counts, error) {
	dirs, err := nestedModules()
	if err != nil {
		return testlog.Counts{}, err
	}
	var n testlog.Counts
	var errs []error
	for _, dir := range dirs {
		hasCode, err := c.buildModule(ctx, dir)
		if err != nil {
			n.Failed++
			errs = append(errs, errors.New(dir+": "+err.Error()))
			continue
		}
		n.Passed++
		if !hasCode || dir == benchModule {
			continue
		}
		tests, err := c.goTestIn(ctx, dir, "", []string{"BORESCOPE_LONG=1"}, "-count=1", "-timeout=3m", "./...")
		n.Add(tests)
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// buildModule builds and vets a module's packages, or builds its tools if it has no code.
func (c *check) buildModule(ctx context.Context, dir string) (hasCode bool, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		hasCode = hasCode || strings.HasSuffix(path, ".go")
		return err
	})
	if err != nil {
		return false, err
	}
	if !hasCode {
		return false, c.exec(ctx, nil, "go", "-C", dir, "build", "-o", os.DevNull, "tool")
	}
	for _, verb := range []string{"build", "vet"} {
		if err := c.exec(ctx, nil, "go", "-C", dir, verb, "./..."); err != nil {
			return true, err
		}
	}
	return true, nil
}

func nestedModules() ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.Name() == "go.mod" && filepath.Dir(path) != "." {
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	return dirs, err
}
