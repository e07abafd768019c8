package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/system"
)

// runtimeTests returns the programs of the runtime suite that should run on amd64: those of
// PROG, of -e in RUN unless the shell makes them, and the files of scripts that RUN names.
func runtimeTests(dir string) (found []snippet, err error) {
	err = eachBlock(dir, func(where, rest string) {
		if elsewhere(rest) {
			return
		}
		sn := snippet{where: where, accepted: true, environ: map[string]string{}}
		if _, env, ok := strings.Cut(rest, "\nENV "); ok {
			env, _, _ = strings.Cut(env, "\n")
			for pair := range strings.FieldsSeq(env) {
				key, value, _ := strings.Cut(pair, "=")
				sn.environ[key] = value
			}
		}
		if _, prog, ok := strings.Cut(rest, "\nPROG "); ok {
			sn.src = upToDirective(prog)
		} else if _, command, ok := strings.Cut(rest, "\nRUN "); ok {
			sn.command(dir, upToDirective(command))
		}
		if sn.src != "" {
			found = append(found, sn)
		}
	})
	return found, err
}

// elsewhere reports whether a test is for other machines.
func elsewhere(block string) bool {
	_, arch, ok := strings.Cut(block, "\nARCH ")
	arch, _, _ = strings.Cut(arch, "\n")
	return ok && !strings.Contains(arch, "x86_64")
}

// command takes the script and its parameters from a command line.
func (sn *snippet) command(dir, line string) {
	_, line, ok := strings.Cut(line, "{{BPFTRACE}}")
	if !ok || strings.HasPrefix(strings.TrimSpace(line), "-l") || strings.Contains(line, "$(") {
		return // it lists, or the shell makes the script
	}
	line = strings.ReplaceAll(line, "{{BEFORE_PID}}", "1")
	words := shellWords(line)
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-e" && i+1 < len(words):
			i++
			sn.src = words[i]
		case w == "-p" || w == "--pid" || w == "-c":
			sn.process = true
			i++
		case strings.HasPrefix(w, "runtime/scripts/") && sn.src == "":
			b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), w))
			if err != nil {
				return
			}
			sn.src = string(b)
		case w == "--mode" || w == "--probe-filter" || w == "-f" || w == "-o" ||
			w == "--traceable-functions":
			i++
		case !strings.HasPrefix(w, "-") && sn.src != "":
			sn.params = append(sn.params, w)
		}
	}
}

// shellWords splits a command line into words, up to what ends the command.
func shellWords(line string) (words []string) {
	var b strings.Builder
	started := false
	end := func() {
		if started {
			words = append(words, b.String())
		}
		b.Reset()
		started = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case '\'', '"':
			started = true
			for i++; i < len(line) && line[i] != c; i++ {
				if c == '"' && line[i] == '\\' && i+1 < len(line) {
					i++
				}
				b.WriteByte(line[i])
			}
		case '|', '&', ';', '>', '<', '\n':
			end()
			return words
		case ' ':
			end()
		default:
			started = true
			b.WriteByte(c)
		}
	}
	end()
	return words
}

// guestRoot has a kernel's types, and this machine's tracepoints.
type guestRoot struct {
	fs.FS
	own fstest.MapFS
}

// Open opens the kernel's types and the copies of the formats in place of this machine's, and
// otherwise this machine's files, except those about its kernel.
func (g guestRoot) Open(name string) (fs.File, error) {
	switch {
	case name == "sys/kernel/btf/vmlinux", strings.HasPrefix(name, tracing):
		return g.own.Open(name)
	case strings.HasPrefix(name, "sys/kernel/btf/"), name == "proc/kallsyms",
		strings.Contains(name, "available_filter_functions"):
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return g.FS.Open(name)
}

const tracing = "sys/kernel/tracing"

// formats returns copies of the formats of this machine's tracepoints.
func formats() (fstest.MapFS, error) {
	dir, err := tracefs.Need(os.DirFS("/"), true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	files := fstest.MapFS{}
	events := os.DirFS("/" + dir.Path)
	names, err := fs.Glob(events, "events/*/*/format")
	for _, name := range names {
		b, err := fs.ReadFile(events, name)
		if err != nil {
			return nil, err
		}
		files[tracing+"/"+name] = &fstest.MapFile{Data: b}
	}
	return files, err
}

// guestSystem returns the machine of a guest's kernel, which it downloads if need be, with
// formats.
func guestSystem(version string, formats fstest.MapFS) (*system.System, error) {
	k, err := kernel.Get(version, "amd64")
	if err != nil {
		return nil, err
	}
	image, err := os.ReadFile(k.Image)
	if err != nil {
		return nil, err
	}
	raw, err := kernel.BTF(image)
	if err != nil {
		return nil, err
	}
	return machine(raw, k.Release, "amd64", formats), nil
}

// hereSystem returns this machine without its list of functions, as guests are: it is the typing
// that is counted, and a probe on a function that is not here would be left out with what it
// declares.
func hereSystem(formats fstest.MapFS) (*system.System, error) {
	raw, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		return nil, err
	}
	return machine(raw, probe.NewEnv(nil).Release(), "", formats), nil
}

func machine(types []byte, release, arch string, formats fstest.MapFS) *system.System {
	own := maps.Clone(formats)
	own["sys/kernel/btf/vmlinux"] = &fstest.MapFile{Data: types}
	return system.New(probe.NewEnv(&probe.EnvOptions{
		Root: guestRoot{os.DirFS("/"), own}, Release: release, Arch: arch,
	}), &system.Options{DWARF: true})
}
