package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// workshop is a directory where a test builds programs.
type workshop struct {
	t   *testing.T
	dir string
}

func newWorkshop(t *testing.T, tools ...string) workshop {
	t.Helper()
	need := make([]testenv.Requirement, len(tools))
	for i, name := range tools {
		need[i] = testenv.Tool(name)
	}
	testenv.Need(t, need...)
	return workshop{t, t.TempDir()}
}

func (w workshop) run(name string, args ...string) string {
	w.t.Helper()
	cmd := testenv.Command(w.t, name, args...)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (w workshop) path(name string) string { return filepath.Join(w.dir, name) }

func (w workshop) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// sources writes two C files with a static, an inlined and a global function
// each; main is in the first.
func (w workshop) sources() []string {
	for _, n := range []string{"one", "two"} {
		text := fmt.Sprintf(`
struct item { struct item *next; const char *name; long values[8]; union { int i; double d; void *p; } u; };
struct list { struct item *first, *last; unsigned long size, limit; struct list *outer; };
int %[1]s(int);
static inline __attribute__((always_inline)) int %[1]s_inner(int x) {
	volatile struct list l = { .size = x };
	return (int)l.size * 3;
}
static __attribute__((noinline, used)) int %[1]s_static(int x) {
	return %[1]s_inner(x) + %[1]s_inner(x + 1);
}
int %[1]s(int x) {
	return %[1]s_static(x) + 1;
}
`, n)
		if n == "one" {
			text += "int two(int);\nint main(int argc, char **argv) { return one(argc) - two(argc); }\n"
		}
		w.write(n+".c", text)
	}
	return []string{"one.c", "two.c"}
}

// answers resolves every third byte of the functions that sources made, of the
// file that names them.
func answers(t *testing.T, names, file *ELF) (out []string, inlined int) {
	t.Helper()
	for _, fn := range []string{"one", "two", "one_static", "two_static", "main"} {
		s, err := names.Lookup(fn)
		if err != nil {
			t.Fatal(err)
		}
		for off := uint64(0); off < s.Size; off += 3 {
			frames := file.Resolve(nil, []uint64{s.Addr + off})
			inlined += len(frames) - 1
			out = append(out, fmt.Sprintf("%s+%#x: %s", fn, off, chainOf(frames)))
		}
	}
	return out, inlined
}

func (w workshop) open(name string, opts ELFOptions) *ELF {
	w.t.Helper()
	e, err := OpenELF(w.path(name), &opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { e.Close() })
	return e
}

// sameAnswers compares a file with the one that all of it was taken from.
func sameAnswers(t *testing.T, full, file *ELF) {
	t.Helper()
	want, inlined := answers(t, full, full)
	got, _ := answers(t, full, file)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %s, want %s", got[i], want[i])
			break
		}
	}
	if inlined < 5 || !strings.Contains(strings.Join(want, "\n"), "one.c:") {
		t.Errorf("the whole file has %d inlined calls: %s", inlined, want[0])
	}
}

// TestDebugLink finds debug files by name, where GDB looks for them, and takes
// none whose sum is another.
func TestDebugLink(t *testing.T) {
	w := newWorkshop(t, "gcc", "objcopy")
	w.run("gcc", append([]string{"-O2", "-g", "-Wl,--build-id=none", "-o", "full"}, w.sources()...)...)
	w.run("objcopy", "--only-keep-debug", "full", "prog.debug")
	w.run("objcopy", "--strip-all", "--add-gnu-debuglink=prog.debug", "full", "prog")
	debug, err := os.ReadFile(w.path("prog.debug"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.path("prog.debug")); err != nil {
		t.Fatal(err)
	}
	full := w.open("full", ELFOptions{Source: true})
	static, err := full.Lookup("two_static")
	if err != nil {
		t.Fatal(err)
	}
	global := w.path("global")
	for _, place := range []string{"prog.debug", ".debug/prog.debug", filepath.Join("global", w.dir, "prog.debug")} {
		opts := ELFOptions{Source: true, DebugDirs: []string{global}}
		w.write(place, string(debug))
		sameAnswers(t, full, w.open("prog", opts))
		w.write(place, string(debug)+"x")
		if f := w.open("prog", opts).Resolve(nil, []uint64{static.Addr})[0]; f.Name != "" || f.Line != 0 {
			t.Errorf("%s with another sum gave %+v", place, f)
		}
		if err := os.Remove(w.path(place)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBuildIDDirs finds debug files by build-id, in a debug directory and in the
// cache of a debuginfod client, and takes none with another build-id.
func TestBuildIDDirs(t *testing.T) {
	w := newWorkshop(t, "gcc", "objcopy")
	const id = "0123456789abcdef0123456789abcdef01234567"
	w.run("gcc", append([]string{"-O2", "-g", "-Wl,--build-id=0x" + id, "-o", "full"}, w.sources()...)...)
	w.run("gcc", append([]string{"-O2", "-g", "-Wl,--build-id=0x" + id[2:] + "00", "-o", "other"}, w.sources()...)...)
	for _, name := range []string{"full", "other"} {
		w.run("objcopy", "--only-keep-debug", "--compress-debug-sections=zstd", name, name+".debug")
	}
	w.run("objcopy", "--strip-all", "full", "prog")
	full := w.open("full", ELFOptions{Source: true})
	opts := ELFOptions{Source: true, DebugDirs: []string{w.path("none"), w.path("dir")}}
	for _, place := range []string{"dir/.build-id/01/" + id[2:] + ".debug", "dir/" + id + "/debuginfo"} {
		w.write(place, "")
		w.run("cp", "other.debug", place)
		if f := w.open("prog", opts).Resolve(nil, []uint64{mustLookup(t, full, "two_static")})[0]; f.Name != "" {
			t.Errorf("%s of another program gave %+v", place, f)
		}
		w.run("cp", "full.debug", place)
		sameAnswers(t, full, w.open("prog", opts))
		w.run("rm", place)
	}
}

func mustLookup(t *testing.T, e *ELF, name string) uint64 {
	t.Helper()
	s, err := e.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Addr
}

// TestMiniDebugInfo reads the compressed symbol table that Fedora's packages
// have in .gnu_debugdata, made as its find-debuginfo makes it, and agrees with
// eu-addr2line about it.
func TestMiniDebugInfo(t *testing.T) {
	w := newWorkshop(t, "gcc", "objcopy", "xz", "eu-addr2line")
	w.run("gcc", append([]string{"-O2", "-o", "full", "-rdynamic"}, w.sources()...)...)
	w.write("keep", "one_static\ntwo_static\n")
	w.run("objcopy", "-S", "--remove-section=.comment", "--keep-symbols=keep", "full", "mini")
	w.run("xz", "mini")
	w.run("objcopy", "-S", "--add-section", ".gnu_debugdata=mini.xz", "full", "prog")
	w.run("objcopy", "-S", "full", "bare")
	full, prog, bare := w.open("full", ELFOptions{}), w.open("prog", ELFOptions{}), w.open("bare", ELFOptions{})
	for _, fn := range []string{"one_static", "two_static", "one", "two", "main"} {
		at := mustLookup(t, full, fn)
		f := prog.Resolve(nil, []uint64{at + 2})[0]
		oracle := w.run("eu-addr2line", "-S", "-e", "prog", fmt.Sprintf("%#x", at+2))
		if !strings.HasPrefix(oracle, fn+"+0x2") {
			t.Errorf("eu-addr2line says %s of %s", oracle, fn)
		}
		if f.Name != fn || f.Offset != 2 {
			t.Errorf("%s: got %+v", fn, f)
		}
		if g := bare.Resolve(nil, []uint64{at + 2})[0]; strings.HasSuffix(fn, "static") && g.Name != "" {
			t.Errorf("without .gnu_debugdata %s is known: %+v", fn, g)
		}
	}
}

// TestDWZ reads two programs whose common parts dwz moved to a third file.
func TestDWZ(t *testing.T) {
	w := newWorkshop(t, "gcc", "dwz", "readelf")
	src := w.sources()
	for _, c := range []struct{ name, version, flag, link string }{
		{"dwarf4", "-gdwarf-4", "--odr", ".gnu_debugaltlink"},
		{"dwarf5", "-gdwarf-5", "--odr", ".gnu_debugaltlink"},
		{"supplementary", "-gdwarf-5", "-5", ".debug_sup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := workshop{t, w.dir}
			w.run("gcc", append([]string{"-O2", c.version, "-o", "full"}, src...)...)
			w.run("cp", "full", "prog")
			w.run("gcc", append([]string{"-O1", c.version, "-o", "prog2"}, src...)...)
			w.run("rm", "-f", "common.debug")
			w.run("dwz", c.flag, "-m", "common.debug", "-M", w.path("common.debug"), "prog", "prog2")
			if s := w.run("readelf", "-SW", "prog"); !strings.Contains(s, c.link) {
				t.Fatal("dwz moved nothing")
			}
			full := w.open("full", ELFOptions{Source: true})
			sameAnswers(t, full, w.open("prog", ELFOptions{Source: true}))
			// Without the common file names may be lost, and nothing else.
			w.run("rm", "common.debug")
			want, _ := answers(t, full, full)
			got, _ := answers(t, full, w.open("prog", ELFOptions{Source: true}))
			for i := range want {
				if strings.Count(got[i], ":") != strings.Count(want[i], ":") {
					t.Fatalf("without the common file: got %s, want %s", got[i], want[i])
				}
			}
		})
	}
}

// TestSplitPackage reads several units of a .dwp file.
func TestSplitPackage(t *testing.T) {
	testenv.Need(t, testenv.Tool("gcc"), testenv.Tool("dwp"))
	for _, v := range []string{"4", "5"} {
		t.Run("dwarf"+v, func(t *testing.T) {
			w := workshop{t, t.TempDir()}
			src := w.sources()
			w.run("gcc", append([]string{"-O2", "-gdwarf-" + v, "-o", "full"}, src...)...)
			w.run("gcc", append([]string{"-O2", "-gdwarf-" + v, "-gsplit-dwarf", "-o", "prog"}, src...)...)
			parts, err := filepath.Glob(w.path("*.dwo"))
			if err != nil || len(parts) != 2 {
				t.Fatalf("%v %v", parts, err)
			}
			if v == "4" {
				w.run("dwp", "-e", "prog", "-o", "prog.dwp")
			} else {
				w.pack("prog.dwp", parts)
			}
			for _, name := range parts {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			sameAnswers(t, w.open("full", ELFOptions{Source: true}), w.open("prog", ELFOptions{Source: true}))
		})
	}
}

// pack makes a .dwp file with an index of DWARF 5 (7.3.5), which binutils' dwp
// cannot, and llvm-dwp does not for what gcc writes: it never ends.
func (w workshop) pack(name string, parts []string) {
	w.t.Helper()
	le := binary.LittleEndian
	// Columns of the index, numbered as DW_SECT_ are.
	columns := []struct {
		id   uint32
		name string
	}{{1, ".debug_info.dwo"}, {3, ".debug_abbrev.dwo"}, {6, ".debug_str_offsets.dwo"}, {8, ".debug_rnglists.dwo"}}
	sections := map[string][]byte{}
	var ids []uint64
	var offsets, sizes []byte
	for _, path := range parts {
		f, err := elf.Open(path)
		if err != nil {
			w.t.Fatal(err)
		}
		data := func(name string) []byte {
			s := f.Section(name)
			if s == nil {
				return nil
			}
			b, err := s.Data()
			if err != nil {
				w.t.Fatal(err)
			}
			return bytes.Clone(b)
		}
		ids = append(ids, le.Uint64(data(".debug_info.dwo")[12:])) // dwo_id, after length, version, kind, sizes
		strs := uint32(len(sections[".debug_str.dwo"]))
		for _, c := range columns {
			b := data(c.name)
			if c.id == 6 { // strings lie further back in the package
				for i := 8; i+4 <= len(b); i += 4 {
					le.PutUint32(b[i:], le.Uint32(b[i:])+strs)
				}
			}
			offsets = le.AppendUint32(offsets, uint32(len(sections[c.name])))
			sizes = le.AppendUint32(sizes, uint32(len(b)))
			sections[c.name] = append(sections[c.name], b...)
		}
		sections[".debug_str.dwo"] = append(sections[".debug_str.dwo"], data(".debug_str.dwo")...)
		f.Close()
	}
	const slots = 4
	hashes, rows := make([]byte, 8*slots), make([]byte, 4*slots)
	for i, id := range ids {
		k := id % slots
		for le.Uint32(rows[4*k:]) != 0 {
			k = (k + (id>>32%slots | 1)) % slots
		}
		le.PutUint64(hashes[8*k:], id)
		le.PutUint32(rows[4*k:], uint32(i+1))
	}
	index := le.AppendUint32(nil, 5)
	for _, n := range []int{len(columns), len(parts), slots} {
		index = le.AppendUint32(index, uint32(n))
	}
	index = append(append(index, hashes...), rows...)
	for _, c := range columns {
		index = le.AppendUint32(index, c.id)
	}
	sections[".debug_cu_index"] = append(append(index, offsets...), sizes...)
	out := elfbuild.File{Type: elf.ET_REL, Machine: elf.EM_X86_64}
	for name, b := range sections {
		out.Sections = append(out.Sections, elfbuild.Section{Name: name, Type: elf.SHT_PROGBITS, Data: b})
	}
	if err := os.WriteFile(w.path(name), out.Bytes(), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// jitSource is a program that writes a perf map for a page of memory, says where
// the page and its own function are, and waits.
const jitSource = `
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int one(int x) { return x + 1; }
int main(void) {
	char name[64];
	void *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *f = fopen(name, "w");
	if (!f || page == MAP_FAILED)
		return 1;
	fprintf(f, "%lx 40 jitted_in_namespace\n", (unsigned long)page);
	fclose(f);
	printf("%lx %lx\n", (unsigned long)page, (unsigned long)one);
	fflush(stdout);
	pause();
	return one(1);
}
`

// TestMountNamespace names code of a program in mount and pid namespaces of its
// own, where its file, its debug file and its perf map are and nowhere else.
func TestMountNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root)
	w := newWorkshop(t, "gcc", "objcopy", "sh", "mount")
	w.write("jit.c", jitSource)
	w.run("gcc", "-O2", "-g", "-Wl,--build-id=none", "-o", "full", "jit.c")
	w.run("objcopy", "--only-keep-debug", "full", "prog.debug")
	w.run("objcopy", "--strip-all", "--add-gnu-debuglink=prog.debug", "full", "prog.real")
	inside, err := os.MkdirTemp("/var/tmp", "borescope") // not below /tmp, which the program has its own of
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(inside)
	script := `mount --make-rprivate / && mount -t tmpfs none inside && mkdir inside/.debug &&
cp prog.real inside/prog && cp prog.debug inside/.debug/ && mount -t tmpfs none /tmp && exec inside/prog`
	script = strings.ReplaceAll(script, "inside", inside)
	cmd := testenv.Command(t, "sh", "-c", script)
	cmd.Dir = w.dir
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	var page, one uint64
	if _, err := fmt.Fscanf(out, "%x %x\n", &page, &one); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("the program did not start: %v %s", err, errs.String())
	}
	if _, err := os.Stat(inside + "/prog"); err == nil {
		t.Fatal("the program's file is visible from here")
	}
	p, err := OpenProcess(cmd.Process.Pid, &Options{Source: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	frames := p.Resolve(nil, []uint64{one, page + 0x10, page + 0x50})
	if f := frames[0]; f.Name != "one" || filepath.Base(f.File) != "jit.c" || f.Line != 5 || f.Module != inside+"/prog" {
		t.Errorf("got %+v", f)
	}
	if f := frames[1]; f.Name != "jitted_in_namespace" || f.Kind != KindJIT || f.Offset != 0x10 {
		t.Errorf("got %+v", f)
	}
	if f := frames[2]; f.Name != "" || f.Reason != ReasonAnonymous {
		t.Errorf("got %+v", f)
	}
}

// TestManySections looks names up in an object file with more sections than a
// symbol has room to number, as -ffunction-sections makes them.
func TestManySections(t *testing.T) {
	w := newWorkshop(t, "as")
	var src strings.Builder
	const n = 0x10000 + 100
	for i := range n {
		fmt.Fprintf(&src, ".section .text.f%d,\"ax\"\n.globl f%d\n.type f%d,@function\nf%d: .byte 0,0,0,0\n.size f%d,4\n", i, i, i, i, i)
	}
	w.write("many.s", src.String())
	w.run("as", "-o", "many.o", "many.s")
	e := w.open("many.o", ELFOptions{DebugDirs: []string{}})
	ref, err := elf.Open(w.path("many.o"))
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	for _, i := range []int{0, 1, 0xff00, 0xffff, n - 1} {
		name := fmt.Sprint("f", i)
		at, want := mustLookup(t, e, name), ref.Section(".text."+name).Offset
		if f := e.Resolve(nil, []uint64{want + 3})[0]; at != want || f.Name != name || f.Offset != 3 {
			t.Errorf("%s is at %#x, not %#x, where there is %s+%d", name, want, at, f.Name, f.Offset)
		}
	}
}
