//go:build linux

package elfbuild_test

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/core"
	"github.com/borescope/borescope/stack/perfdata"
	"github.com/borescope/borescope/symbol"
	"github.com/borescope/borescope/usdt"
)

// reader is something of the library that reads files of a kind.
type reader struct {
	name string
	kind elfbuild.Kind
	// ready prepares everything that does not depend on the file's contents. It returns a
	// function that reads the file and describes the result.
	ready func(t *testing.T, f *file) func() string
}

const fileReader = "name addresses of a file"

// readers are all of them.
var readers = []reader{
	{"name addresses", elfbuild.ELF, nameAddresses(nil)},
	{"name addresses with DWARF", elfbuild.ELF, nameAddresses(&symbol.Options{Source: true})},
	{"name addresses by a debug file", elfbuild.ELF, byDebugFile},
	{fileReader, elfbuild.ELF, fileAddresses},
	{"match a symbol", elfbuild.ELF, matchSymbols(symbol.Exact("a"))},
	{"match all symbols", elfbuild.ELF, matchSymbols(nil)},
	{"match a pattern", elfbuild.ELF, matchSymbols(pattern("*b*"))},
	{"match a readable name", elfbuild.ELF, matchSymbols(pattern("a::*"))},
	{"unwind", elfbuild.ELF, unwind},
	{"uprobe by name", elfbuild.ELF, resolve("uprobe:%s:f")},
	{"uprobe by pattern", elfbuild.ELF, resolve("uprobe:%s:*a")},
	{"uprobe by readable name", elfbuild.ELF, resolve("uprobe:%s:cpp:a")},
	{"uprobe by address", elfbuild.ELF, resolve("uprobe:%s:0x1000")},
	{"uprobe by line", elfbuild.ELF, resolve("uprobe:%s:x.c:1")},
	{"usdt", elfbuild.ELF, resolve("usdt:%s:p:n")},
	{"list functions", elfbuild.ELF, list("uprobe:%s:*")},
	{"list USDT probes", elfbuild.ELF, list("usdt:%s:*")},
	{"read USDT notes", elfbuild.ELF, usdtNotes},
	{"read notes", elfbuild.ELF, readNotes},
	{"read notes", elfbuild.Core, readNotes},
	{"core file", elfbuild.Core, openCore},
	{"unwind a kernel", elfbuild.ELF, readORC},
	{"unwind a kernel", elfbuild.Kernel, readORC},
	{"read notes", elfbuild.Kernel, readNotes},
	{"samples", elfbuild.Perf, readSamples},
	{"name addresses", elfbuild.PerfMap, nameJIT},
	{"name addresses", elfbuild.JITDump, nameJIT},
	{"find a library", elfbuild.LinkerCache, findLibrary},
}

// TestBombs checks that every reader of the library takes at most 64 MiB more than a file
// occupies, and a second, for files that any user may write and map, and that tools of root
// read. They took gigabytes and minutes.
func TestBombs(t *testing.T) {
	testenv.Need(t, testenv.Long)
	testenv.LimitMemory(t, 1<<30)
	for _, b := range elfbuild.Bombs() {
		if b.Kind == elfbuild.Recorded {
			continue // see TestRecordingBombs
		}
		t.Run(b.Name, func(t *testing.T) {
			f := write(t, b)
			for _, r := range readers {
				if r.kind != b.Kind {
					continue
				}
				t.Run(r.name, func(t *testing.T) {
					read := r.ready(t, f)
					said := ""
					size := len(f.image)
					if r.kind == elfbuild.ELF && r.name == fileReader {
						size *= 2 // a file that the user chose has all its symbols named
					}
					mem, cpu := meter.Bounded(t, size, func() { said = read() })
					t.Logf("%d bytes of file: %d of memory, %v: %.160s", len(f.image), mem, cpu.Round(time.Millisecond), said)
				})
			}
		})
	}
}

// file is a bomb that was written.
type file struct {
	image []byte
	path  string
}

// write writes a bomb, as somebody else where that is allowed.
func write(t *testing.T, b elfbuild.Bomb) *file {
	t.Helper()
	f := &file{b.Make(), filepath.Join(t.TempDir(), cmp.Or(b.File, "file"))}
	switch b.Kind {
	case elfbuild.Recorded:
		if b.File != "manifest" {
			writeFile(t, filepath.Join(filepath.Dir(f.path), "manifest"), []byte(elfbuild.Manifest), 0)
		}
	case elfbuild.JITDump:
		f.path = filepath.Join(filepath.Dir(f.path), "jit-1.dump")
	case elfbuild.PerfMap:
		f.path = fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
		t.Cleanup(func() { os.Remove(f.path) })
	}
	writeFile(t, f.path, f.image, b.Hole)
	return f
}

// writeFile makes a stranger's file of an image, with a hole at its end; what compilers
// say of their code is only believed of the process's user.
func writeFile(t *testing.T, path string, image []byte, hole int64) {
	t.Helper()
	err := os.WriteFile(path, image, 0o755)
	if err == nil {
		err = os.Truncate(path, int64(len(image))+hole)
	}
	if err == nil && os.Getuid() == 0 && !strings.HasPrefix(path, "/tmp/perf-") && filepath.Ext(path) != ".dump" {
		err = os.Chown(path, 65534, 65534)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readSamples reads a perf.data file, and looks up where each sample was.
func readSamples(t *testing.T, f *file) func() string {
	root := fstest.MapFS{}
	return func() string {
		p, err := perfdata.Open(f.path)
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		p.Root = root
		samples, failed := p.Samples()
		n, mapped := 0, 0
		for s := range samples {
			n++
			if s.Modules.Find(1<<40) != nil {
				mapped++
			}
		}
		return fmt.Sprintf("%d samples, %d mapped: %v", n, mapped, failed())
	}
}

// mapped is how much this process maps of a file, also behind its end.
const mapped = 16 << 20

// mapCode maps a file from the page on where a program's code is, or memory if the path
// is empty, and returns where.
func mapCode(t *testing.T, path string) uint64 {
	t.Helper()
	fd, flags := -1, unix.MAP_PRIVATE
	if path == "" {
		flags |= unix.MAP_ANON
	} else {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fd = int(f.Fd())
	}
	m, err := unix.Mmap(fd, elfbuild.ProgramText, mapped, unix.PROT_READ|unix.PROT_EXEC, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	return uint64(uintptr(unsafe.Pointer(&m[0])))
}

// nameAddresses names some of a mapping of the file, as samples have them.
func nameAddresses(o *symbol.Options) func(*testing.T, *file) func() string {
	return func(t *testing.T, f *file) func() string { return named(t, o, mapCode(t, f.path)) }
}

// nameJIT names those of memory that is no program's: a compiler's files are read.
func nameJIT(t *testing.T, f *file) func() string {
	if filepath.Ext(f.path) == ".dump" {
		mapCode(t, f.path) // that is how they are found
	}
	return named(t, nil, mapCode(t, ""))
}

// byDebugFile names addresses of a program whose separate debug file it is.
func byDebugFile(t *testing.T, f *file) func() string {
	link := binary.LittleEndian.AppendUint32([]byte("file\x00\x00\x00\x00"), crc32.ChecksumIEEE(f.image))
	program := elfbuild.Program(elfbuild.Section{Name: ".gnu_debuglink", Type: elf.SHT_PROGBITS, Data: link, Align: 4})
	path := filepath.Join(filepath.Dir(f.path), "program")
	writeFile(t, path, program.Bytes(), 0)
	return named(t, &symbol.Options{Source: true, Chosen: true}, mapCode(t, path)) // of a stranger it is only summed
}

// named names addresses of a mapping at code: at its beginning, and more further on.
func named(t *testing.T, o *symbol.Options, code uint64) func() string {
	ps := symbol.NewProcesses(o)
	t.Cleanup(func() { ps.Close() })
	return func() string {
		p, err := ps.Process(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		var frames []symbol.Frame
		for i := range uint64(500) { // as of samples, one at a time
			for _, pc := range []uint64{i, mapped/32 + i, i * mapped / 500} {
				frames = p.Resolve(frames[:0], []uint64{code + pc})
			}
		}
		frames = p.Resolve(frames[:0], []uint64{code})
		return fmt.Sprintf("%.40q %v in %s", frames[0].Name, frames[0].Reason, frames[0].Module)
	}
}

// fileAddresses names addresses of a file that the user chose.
func fileAddresses(_ *testing.T, f *file) func() string {
	return func() string {
		e, err := symbol.OpenELF(f.path, &symbol.ELFOptions{Source: true})
		if err != nil {
			return err.Error()
		}
		defer e.Close()
		frames := e.Resolve(nil, []uint64{elfbuild.ProgramText, elfbuild.ProgramText + 1<<19})
		return fmt.Sprintf("%.40q %v", frames[0].Name, frames[0].Reason)
	}
}

func matchSymbols(p *symbol.Pattern) func(*testing.T, *file) func() string {
	return func(t *testing.T, f *file) func() string {
		return func() string {
			e, err := symbol.OpenELF(f.path, nil)
			if err != nil {
				return err.Error()
			}
			defer e.Close()
			list, err := e.Match(p)
			return fmt.Sprintf("%d symbols, %v", len(list), err)
		}
	}
}

func pattern(s string) *symbol.Pattern {
	p, err := symbol.ParsePattern(s)
	if err != nil {
		panic(err)
	}
	return p
}

func unwind(t *testing.T, f *file) func() string {
	c := &stack.CFICache{MaxBytes: 16 << 20} // as the tools have it
	if _, err := c.Modules(os.Getpid()); err != nil {
		t.Fatal(err) // this program's own tables are there from now on
	}
	mapCode(t, f.path)
	return func() string {
		m, err := c.Modules(os.Getpid())
		return fmt.Sprintf("%v: %v", m != nil, err)
	}
}

// environment is a machine on which everything can be attached.
func environment(o probe.EnvOptions) *probe.Env {
	o.Arch, o.Release, o.Features = "amd64", "6.12.0-test", env.FeatureSet{}
	for _, f := range feature.All() {
		o.Features[f.String()] = feature.Result{State: feature.Yes}
	}
	return probe.NewEnv(&o)
}

// maxFunctions is what the tools allow a target to stand for.
const maxFunctions = 100_000

func resolve(target string) func(*testing.T, *file) func() string {
	return func(t *testing.T, f *file) func() string {
		env := environment(probe.EnvOptions{})
		target, err := probe.ParseTarget(fmt.Sprintf(target, f.path))
		if err != nil {
			t.Fatal(err)
		}
		return func() string {
			return planned(probe.Resolve(env, []probe.Target{target}, &probe.Options{DWARF: true, MaxFunctions: maxFunctions}))
		}
	}
}

// planned says how many places a plan has.
func planned(plan *probe.Plan, err error) string {
	n := 0
	if plan != nil {
		for i := range plan.Programs {
			n += len(plan.Programs[i].Sites)
		}
	}
	return fmt.Sprintf("%d places, %v", n, err)
}

func list(what string) func(*testing.T, *file) func() string {
	return func(t *testing.T, f *file) func() string {
		env := environment(probe.EnvOptions{})
		return func() string {
			found, errOf := probe.List(fmt.Sprintf(what, f.path), &probe.ListOptions{Env: env, Args: true})
			n := 0
			for range found {
				n++
			}
			return fmt.Sprintf("%d places, %v", n, errOf())
		}
	}
}

func findLibrary(t *testing.T, f *file) func() string {
	env := environment(probe.EnvOptions{Root: fstest.MapFS{"etc/ld.so.cache": {Data: f.image}}})
	target, err := probe.ParseTarget("uprobe:nothing:f")
	if err != nil {
		t.Fatal(err)
	}
	return func() string { return planned(probe.Resolve(env, []probe.Target{target}, nil)) }
}

func usdtNotes(_ *testing.T, f *file) func() string {
	return func() string {
		u, err := usdt.Open(f.path)
		if err != nil {
			return err.Error()
		}
		defer u.Close()
		probes, err := u.Probes()
		return fmt.Sprintf("%d probes, %v", len(probes), err)
	}
}

func readNotes(_ *testing.T, f *file) func() string {
	return func() string {
		e, err := elfnotes.Open(f.path)
		if err != nil {
			return err.Error()
		}
		defer e.Close()
		notes, errOf := e.Notes()
		n := 0
		for note := range notes {
			if _, err := note.Decode(); err == nil {
				n++
			}
		}
		_, err = e.BuildID()
		return fmt.Sprintf("%d notes, %v, %v", n, errOf(), err)
	}
}

func openCore(_ *testing.T, f *file) func() string {
	return func() string {
		c, err := core.Open(f.path)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		m, err := c.Modules(nil)
		return fmt.Sprintf("%d threads, %v: %v", len(c.Threads), m != nil, err)
	}
}

// readORC reads the tables by which stacks of a kernel are walked.
func readORC(_ *testing.T, f *file) func() string {
	return func() string {
		o, err := stack.OpenORC(f.path)
		if err != nil {
			return err.Error()
		}
		n := 0
		for range o.All() {
			n++
		}
		return fmt.Sprintf("%d entries", n)
	}
}

// TestRecordingBombs is TestBombs for files of recordings, which are read part after part: each
// takes at most 64 MiB more than the file occupies, and all of them end.
func TestRecordingBombs(t *testing.T) {
	testenv.Need(t, testenv.Long)
	testenv.LimitMemory(t, 512<<20)
	for _, b := range elfbuild.Bombs() {
		if b.Kind != elfbuild.Recorded {
			continue
		}
		for name, ready := range map[string]func(*recording.Recording) (func() error, error){
			"table": replayTable[uint32], "per-CPU table": replayTable[[]uint32],
			"text": replayTable[string], "texts": replayTable[[]string], "dump": dumpTable,
			"stream": replayStream, "file": replayFile,
		} {
			t.Run(b.Name+"/"+name, func(t *testing.T) {
				f := write(t, b)
				var total time.Duration
				parts, end := 0, error(nil)
				var next func() error
				for ; end == nil; parts++ {
					_, cpu := meter.Bounded(t, len(f.image), func() {
						if next == nil {
							next, end = openRecorded(t, f, ready)
							return
						}
						end = next()
					})
					total += cpu
				}
				t.Logf("%d bytes of file: %d parts, %v: %.160s", len(f.image), parts-1, total.Round(time.Millisecond), end)
				if total > meter.Hang {
					t.Errorf("it took %v of a CPU", total)
				}
			})
		}
	}
}

// openRecorded opens the recording that a file belongs to.
func openRecorded(t *testing.T, f *file, ready func(*recording.Recording) (func() error, error)) (func() error, error) {
	r, err := recording.Open(os.DirFS(filepath.Dir(f.path)))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { r.Close() })
	return ready(r)
}

func replayTable[V any](r *recording.Recording) (func() error, error) {
	table, err := recording.ReplayTable[uint32, V](r, "t")
	if err != nil {
		return nil, err
	}
	return func() error { _, err := table.Snapshot(); return err }, nil
}

func dumpTable(r *recording.Recording) (func() error, error) {
	d, err := r.DumpTable("t")
	if err != nil {
		return nil, err
	}
	return func() error { _, _, _, err := d.Next(); return err }, nil
}

// replayStream reads many records at once.
func replayStream(r *recording.Recording) (func() error, error) {
	s, err := r.Stream("s", nil)
	if err != nil {
		return nil, err
	}
	var rec mapx.Record
	return func() error {
		for range 1 << 20 {
			if err := s.ReadInto(context.Background(), &rec); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// replayFile reads much of a file at once.
func replayFile(r *recording.Recording) (func() error, error) {
	f, err := r.Open("f")
	if err != nil {
		return nil, err
	}
	return func() error {
		n, err := io.CopyN(io.Discard, f, 64<<20)
		if errors.Is(err, io.EOF) && n > 0 {
			return nil
		}
		return err
	}, nil
}
