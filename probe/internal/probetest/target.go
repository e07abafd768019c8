// Package probetest contains what the tests of probe and the packages below it share: a
// program to probe, which does everything 23 times, BPF programs that count, and a recorded
// machine.
package probetest

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// TargetPath returns the path of the program to probe, for this machine. Only tests of package
// probe run or probe this file, which they do for all processes; other packages' tests run at
// the same time and use OwnTarget.
func TargetPath() string { return TargetFor(runtime.GOARCH) }

// TargetFor returns the path of the program to probe, built from testdata/target.c for amd64
// or arm64.
func TargetFor(arch string) string { return filepath.Join(testdata(), "target-"+arch) }

// OwnTarget copies the program to probe for one test and returns the copy's path. Only that
// test's processes run it.
func OwnTarget(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(TargetPath())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// testdata returns this package's testdata directory, which it finds from the directory of any
// test in the module.
var testdata = sync.OnceValue(func() string {
	const here = "probe/internal/probetest/testdata"
	dir, err := os.Getwd()
	for err == nil {
		if name := filepath.Join(dir, here); isDir(name) {
			return name
		}
		if up := filepath.Dir(dir); up != dir {
			dir = up
			continue
		}
		break
	}
	return here // for the error of opening it
})

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}
