package main

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// probed are files of this machine that have many probes.
func probed(b *testing.B) []string {
	var files []string
	for _, pattern := range []string{"/usr/lib/jvm/*/lib/server/libjvm.so", "/usr/lib/postgresql/*/bin/postgres", "/usr/bin/python3.*[0-9]", "/usr/lib/*/libpython3*.so.*"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	if len(files) == 0 {
		testenv.Need(b, testenv.Got("files with probes", errors.New("none here")))
	}
	return files
}

// BenchmarkList lists the probes and parses their arguments; BenchmarkReadelf is
// readelf -n over the same files, which parses none.
func BenchmarkList(b *testing.B) {
	files := append([]string{"-v"}, probed(b)...)
	for b.Loop() {
		_ = run(b.Context(), files, io.Discard)
	}
}

func BenchmarkReadelf(b *testing.B) {
	files := append([]string{"-nW"}, probed(b)...)
	testenv.Need(b, testenv.Tool("readelf"))
	for b.Loop() {
		cmd := exec.Command("readelf", files...)
		cmd.Stdout = io.Discard
		_ = cmd.Run()
	}
}
