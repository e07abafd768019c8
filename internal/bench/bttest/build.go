package main

import (
	"archive/zip"
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
)

// These are in the folder in which the suite runs.
const (
	programDir = "testprogs"
	libraryDir = "testlibs"
	sourceDir  = "source"       // programs and libraries as the checkout has them
	unbuilt    = "unbuilt.json" // why programs are not there, by their paths
)

// stage puts what the suite needs into a folder: its files, the sources of its programs, and bt by the
// name that the suite knows.
func stage(work, suite, bt string) error {
	tests := filepath.Join(suite, "tests")
	if _, err := os.Stat(filepath.Join(tests, "runtime")); err != nil {
		return fmt.Errorf("%s is no checkout of bpftrace: %w", suite, err)
	}
	for from, to := range map[string]string{
		"runtime": "runtime", "testprogs": sourceDir + "/testprogs", "testlibs": sourceDir + "/testlibs",
		"include": sourceDir + "/include",
	} {
		to = filepath.Join(work, to)
		if err := os.RemoveAll(to); err != nil { // of a run before
			return err
		}
		if err := os.CopyFS(to, os.DirFS(filepath.Join(tests, from))); err != nil {
			return err
		}
	}
	bin := filepath.Join(work, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := stageBT(filepath.Join(bin, "bpftrace"), bt); err != nil {
		return err
	}
	return stageShims(bin)
}

// stageBT copies bt, or builds it from the tree.
func stageBT(to, bt string) error {
	if bt != "" {
		return copyFile(to, bt)
	}
	const module = "github.com/borescope/borescope"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("the folder of %s: %w", module, err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, "./examples/bt")
	cmd.Dir, cmd.Env = strings.TrimSpace(string(dir)), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build bt: %w: %s", err, out)
	}
	return nil
}

// stageShims has the commands that look processes up look only at those of the suite.
func stageShims(bin string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range shims {
		if err := copyFile(filepath.Join(bin, name), self); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// builder builds the programs of the suite as its CMakeLists.txt do.
type builder struct {
	dir     string            // in which the suite runs, an absolute path
	missing map[string]string // why, by path
}

// buildPrograms builds all programs, unless that was done in this folder before.
func buildPrograms(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, unbuilt)); err == nil {
		return nil
	}
	b := &builder{dir: dir, missing: map[string]string{}}
	for _, d := range []string{
		programDir, libraryDir, programDir + "/.debug", programDir + "/external_debug/dwo", programDir + "/external_debug/dwp",
	} {
		if err := os.MkdirAll(b.path(d), 0o755); err != nil {
			return err
		}
	}
	sources, err := os.ReadDir(b.path(sourceDir + "/testlibs"))
	if err != nil {
		return err
	}
	for _, s := range sources {
		if name, ok := strings.CutSuffix(s.Name(), ".c"); ok {
			b.library(name)
		}
	}
	if sources, err = os.ReadDir(b.path(sourceDir + "/testprogs")); err != nil {
		return err
	}
	for _, s := range sources {
		b.program(s.Name())
	}
	b.others()
	text, err := json.MarshalIndent(b.missing, "", "\t")
	return errors.Join(err, os.WriteFile(b.path(unbuilt), text, 0o644))
}

func (b *builder) path(name string) string { return filepath.Join(b.dir, name) }

// make runs a command that makes a file, and remembers why it did not.
func (b *builder) make(to string, argv ...string) bool {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.path(sourceDir + "/testprogs")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	why := err.Error()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "error") {
			why = strings.TrimSpace(line)
			break
		}
	}
	b.missing[to] = strings.ReplaceAll(why, b.dir+"/", "")
	return false
}

func (b *builder) library(name string) {
	to := libraryDir + "/lib" + name + ".so"
	if b.make(to, "gcc", "-g", "-O0", "-fPIC", "-shared", "-I"+b.path(sourceDir+"/include"),
		b.path(sourceDir+"/testlibs/"+name+".c"), "-o", b.path(to)) {
		os.Chmod(b.path(to), 0o644) // the suite probes libraries that are not executable
	}
}

func (b *builder) program(source string) {
	ext := filepath.Ext(source)
	name, from := strings.TrimSuffix(source, ext), b.path(sourceDir+"/testprogs/"+source)
	to := programDir + "/" + name
	switch ext {
	case ".go":
		b.make(to, "go", "build", "-o", b.path(to), from)
	case ".rs":
		b.make(to, "rustc", "-C", "symbol_mangling_version=v0", "-o", b.path(to), from)
	case ".c", ".cpp":
		for _, pie := range []bool{false, true} {
			compiler, flags := "gcc", []string{"-g", "-O0", "-fno-omit-frame-pointer"}
			if ext == ".cpp" {
				compiler = "g++"
			}
			if name == "uprobe_nofp" {
				flags = []string{"-g", "-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"}
			}
			to := to
			if pie {
				to += "-pie"
				flags = append(flags, "-fpie", "-pie")
			} else {
				flags = append(flags, "-no-pie")
			}
			flags = append(flags, "-I"+b.path(sourceDir+"/include"), from, "-o", b.path(to), "-pthread")
			if name == "usdt_lib" {
				flags = append(flags, "-fPIC", "-I"+b.path(sourceDir+"/testlibs"),
					"-L"+b.path(libraryDir), "-lusdt_tp", "-Wl,-rpath,"+b.path(libraryDir))
			}
			b.make(to, append([]string{compiler}, flags...)...)
		}
	}
}

// others makes the files that are no plain programs.
func (b *builder) others() {
	source := func(name string) string { return b.path(sourceDir + "/testprogs/" + name) }
	prog := func(name string) string { return b.path(programDir + "/" + name) }
	// code without a format around it
	if b.make(programDir+"/false.bin", "gcc", "-c", source("false.c"), "-o", prog("false.o")) {
		b.make(programDir+"/false.bin", "objcopy", "-S", "--only-section=.text", "--keep-symbol=main", "-O", "binary",
			prog("false.o"), prog("false.bin"))
		os.Remove(prog("false.o"))
	}
	if err := archive(prog("archive.zip"), prog("true")); err != nil {
		b.missing[programDir+"/archive.zip"] = err.Error()
	}
	b.split("uprobe_test", "external_debug", false)
	b.split("uprobe_separate_debug", ".debug", true)
	for _, kind := range []string{"dwo", "dwp"} {
		to := programDir + "/external_debug/" + kind + "/uprobe_test-split"
		if !b.make(to, "gcc", "-g", "-O0", "-gsplit-dwarf", source("uprobe_test.c"), "-o", b.path(to)) || kind == "dwo" {
			continue
		}
		if b.make(to, packager(), "-e", b.path(to), "-o", b.path(to)+".dwp") {
			dwos, _ := filepath.Glob(prog("external_debug/dwp/*.dwo"))
			for _, f := range dwos {
				os.Remove(f)
			}
		}
	}
}

// split moves what debuggers need of a program into a file of its own.
func (b *builder) split(name, dir string, link bool) {
	from, to := b.path(programDir+"/"+name), programDir+"/"+name+"-stripped"
	debug := b.path(programDir + "/" + dir + "/" + name + "-stripped.debug")
	ok := b.make(to, "objcopy", "--only-keep-debug", from, debug) &&
		b.make(to, "objcopy", "--strip-debug", from, b.path(to))
	if ok && link {
		b.make(to, "objcopy", "--add-gnu-debuglink="+debug, b.path(to))
	}
}

// packager is the program that makes packages of debug information.
func packager() string {
	names := []string{"llvm-dwp", "llvm-dwp-14", "dwp"}
	i := slices.IndexFunc(names, func(n string) bool {
		_, err := exec.LookPath(n)
		return err == nil
	})
	return names[max(i, 0)]
}

// archive makes an archive with a file in it, not compressed.
func archive(to, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	w, err := z.CreateHeader(&zip.FileHeader{Name: filepath.Base(file), Method: zip.Store})
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, bytes.NewReader(b)); err != nil {
		return err
	}
	return errors.Join(z.Close(), os.WriteFile(to, buf.Bytes(), 0o644))
}
