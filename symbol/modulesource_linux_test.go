package symbol

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/elfnotes"
)

// moduleID is the build-id of the module that buildModule makes.
const moduleID = "8899aabbccddeeff00112233445566778899aabb"

// Where the sections of the module are loaded: not in the order of the file.
var moduleSections = map[string]uint64{
	".text": 0xffffffffc0412000, ".text.unlikely": 0xffffffffc0411000, ".text.startup": 0xffffffffc0413000,
}

// buildModule makes a module as Kbuild does, an object file with a build-id, of
// code in two sections; and of it one without DWARF, and the debug file.
func buildModule(t *testing.T) workshop {
	w := newWorkshop(t, "gcc", "ld", "objcopy", "xz")
	w.sources()
	w.write("three.c", `
static inline __attribute__((always_inline)) int three_inner(int x) { volatile int v = x * 5; return v; }
__attribute__((noinline, section(".text.unlikely"))) int three(int x) { return three_inner(x) - three_inner(x + 1); }
`)
	for _, n := range []string{"one", "two", "three"} {
		w.run("gcc", "-O2", "-g", "-c", "-ffreestanding", "-fno-pic", "-mcmodel=kernel", "-fno-asynchronous-unwind-tables", n+".c")
	}
	w.run("ld", "-r", "--build-id=0x"+moduleID, "-o", "my-module.ko", "one.o", "two.o", "three.o")
	w.run("objcopy", "--only-keep-debug", "my-module.ko", "debug.ko")
	w.run("objcopy", "--strip-debug", "my-module.ko", "stripped.ko")
	w.run("xz", "-k", "my-module.ko")
	return w
}

// moduleHost is a machine that has the module loaded, and its addresses: by
// function, here and in the file.
func moduleHost(t *testing.T, w workshop) (host fstest.MapFS, file *ELF, live, inFile map[string]Symbol) {
	t.Helper()
	file = w.open("my-module.ko", ELFOptions{Source: true, DebugDirs: []string{}})
	f, err := elf.Open(w.path("my-module.ko"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kallsyms := "ffffffff81000000 T _stext\nffffffff81000100 T last\n"
	live, inFile = map[string]Symbol{}, map[string]Symbol{}
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		base, ok := moduleSections[f.Sections[s.Section].Name]
		if !ok {
			t.Fatalf("%s is in %s", s.Name, f.Sections[s.Section].Name)
		}
		kallsyms += fmt.Sprintf("%016x t %s\t[my_module]\n", base+s.Value, s.Name)
		live[s.Name] = Symbol{Addr: base + s.Value, Size: s.Size}
		inFile[s.Name] = Symbol{Addr: mustLookup(t, file, s.Name), Size: s.Size}
	}
	var desc []byte
	if _, err := fmt.Sscanf(moduleID, "%x", &desc); err != nil {
		t.Fatal(err)
	}
	host = fstest.MapFS{
		"proc/kallsyms":                      {Data: []byte(kallsyms)},
		"proc/sys/kernel/osrelease":          {Data: []byte("6.1.0-test\n")},
		"lib/modules/6.1.0-test/modules.dep": {Data: []byte("kernel/fs/other.ko:\nkernel/drivers/my-module.ko: kernel/fs/other.ko\n")},
		"sys/module/my_module/notes/.note.gnu.build-id": {Data: elfnotes.Append(nil,
			elfnotes.Note{Owner: "GNU", Type: 3, Desc: desc, Order: binary.NativeEndian}, 4)},
	}
	for name, addr := range moduleSections {
		host["sys/module/my_module/sections/"+name] = &fstest.MapFile{Data: fmt.Appendf(nil, "%#x\n", addr)}
	}
	return host, file, live, inFile
}

// TestModuleSource names addresses in a module, of which the DWARF is in each of
// the places where it can be. What the file says of its own addresses is what
// addr2line says (TestArchitectures).
func TestModuleSource(t *testing.T) {
	w := buildModule(t)
	for _, c := range []struct{ name, file, path string }{
		{"build-id", "debug.ko", "usr/lib/debug/.build-id/" + moduleID[:2] + "/" + moduleID[2:] + ".debug"},
		{"debian", "debug.ko", "usr/lib/debug/lib/modules/6.1.0-test/kernel/drivers/my-module.ko"},
		{"fedora", "debug.ko", "usr/lib/debug/lib/modules/6.1.0-test/kernel/drivers/my-module.ko.debug"},
		{"module", "my-module.ko", "lib/modules/6.1.0-test/kernel/drivers/my-module.ko"},
		{"compressed", "my-module.ko.xz", "lib/modules/6.1.0-test/kernel/drivers/my-module.ko.xz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, file, live, inFile := moduleHost(t, w)
			image, err := os.ReadFile(w.path(c.file))
			if err != nil {
				t.Fatal(err)
			}
			host[c.path] = &fstest.MapFile{Data: image}
			if strings.HasSuffix(c.path, ".xz") {
				host["lib/modules/6.1.0-test/modules.dep"].Data = []byte("kernel/drivers/my-module.ko.xz:\n")
			}
			k, err := OpenKernel(&KernelOptions{Root: host, Source: true})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			compared, inlined := 0, 0
			for name, s := range live {
				for off := range s.Size {
					want := file.Resolve(nil, []uint64{inFile[name].Addr + off})
					got := k.Resolve(nil, []uint64{s.Addr + off})
					last := got[len(got)-1]
					if chainOf(got) != chainOf(want) || got[0].Module != "[my_module]" || last.Offset != off || last.ModuleOffset != s.Addr+off {
						t.Fatalf("%s+%#x: got %+v, want %s", name, off, got, chainOf(want))
					}
					compared++
					inlined += len(got) - 1
				}
			}
			if len(live) != 6 || compared < 100 || inlined < 20 {
				t.Errorf("%d functions, %d addresses, %d inlined calls", len(live), compared, inlined)
			}
		})
	}
}

// TestModuleSourceRefused keeps to names where a file is another build's, or has
// no DWARF, or is not where the kernel table says.
func TestModuleSourceRefused(t *testing.T) {
	w := buildModule(t)
	const path = "lib/modules/6.1.0-test/kernel/drivers/my-module.ko"
	for _, c := range []struct {
		name, file string
		change     func(host fstest.MapFS)
	}{
		{"stripped", "stripped.ko", func(fstest.MapFS) {}},
		{"another-build", "my-module.ko", func(host fstest.MapFS) {
			note := host["sys/module/my_module/notes/.note.gnu.build-id"].Data
			note[len(note)-1]++
		}},
		{"loaded-anew", "my-module.ko", func(host fstest.MapFS) {
			for name, addr := range moduleSections {
				host["sys/module/my_module/sections/"+name].Data = fmt.Appendf(nil, "%#x\n", addr+1<<20)
			}
		}},
		{"hidden", "my-module.ko", func(host fstest.MapFS) {
			for name := range moduleSections {
				host["sys/module/my_module/sections/"+name].Data = []byte("0x0000000000000000\n")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, _, live, _ := moduleHost(t, w)
			image, err := os.ReadFile(w.path(c.file))
			if err != nil {
				t.Fatal(err)
			}
			host[path] = &fstest.MapFile{Data: image}
			c.change(host)
			k, err := OpenKernel(&KernelOptions{Root: host, Source: true})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for name, s := range live {
				got := k.Resolve(nil, []uint64{s.Addr + 1})
				if len(got) != 1 || got[0].Name != name || got[0].Line != 0 {
					t.Errorf("%s: got %+v", name, got)
				}
			}
		})
	}
}
