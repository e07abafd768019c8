package symbol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/elfnotes"
)

// TestVMLinux names addresses of a small kernel: a program linked where kernels
// are, with DWARF, which runs elsewhere than it was linked. What the file itself
// says of them, its own addresses asked for, is what addr2line says
// (TestArchitectures).
func TestVMLinux(t *testing.T) {
	w := newWorkshop(t, "gcc")
	const id, slide = "00112233445566778899aabbccddeeff00112233", 0x12600000
	w.write("first.c", `__asm__(".text\n.globl _stext\n_stext: nop\n");`)
	src := append([]string{"first.c"}, w.sources()...)
	w.run("gcc", append([]string{
		"-O2", "-g", "-static", "-nostdlib", "-no-pie", "-fno-pie", "-mcmodel=kernel", "-ffreestanding", "-fno-toplevel-reorder",
		"-Wl,-Ttext=0xffffffff81000000", "-Wl,-e,main", "-Wl,--build-id=0x" + id, "-o", "vmlinux",
	}, src...)...)
	file := w.open("vmlinux", ELFOptions{Source: true})
	var kallsyms strings.Builder
	list, err := file.Match(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Kind != KindData {
			fmt.Fprintf(&kallsyms, "%016x T %s\n", s.Addr+slide, s.Name)
		}
	}
	fmt.Fprintf(&kallsyms, "ffffffffc0000000 t one\t[module]\n")
	image, err := os.ReadFile(w.path("vmlinux"))
	if err != nil {
		t.Fatal(err)
	}
	var desc []byte
	if _, err := fmt.Sscanf(id, "%x", &desc); err != nil {
		t.Fatal(err)
	}
	notes := elfnotes.Append(nil, elfnotes.Note{Owner: "GNU", Type: 3, Desc: desc, Order: binary.NativeEndian}, 4)
	host := fstest.MapFS{
		"proc/kallsyms":                         {Data: []byte(kallsyms.String())},
		"proc/sys/kernel/osrelease":             {Data: []byte("6.1.0-test\n")},
		"sys/kernel/notes":                      {Data: notes},
		"usr/lib/debug/boot/vmlinux-6.1.0-test": {Data: image},
	}
	k, err := OpenKernel(&KernelOptions{Root: host, Source: true})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.SourceErr(); err != nil {
		t.Fatal(err)
	}
	compared, inlined := 0, 0
	for _, fn := range []string{"one", "two", "one_static", "two_static"} {
		s, err := file.Lookup(fn)
		if err != nil {
			t.Fatal(err)
		}
		for off := range s.Size {
			want := file.Resolve(nil, []uint64{s.Addr + off})
			got := k.With().Resolve(nil, []uint64{s.Addr + off + slide})
			if chainOf(got) != chainOf(want) || got[0].Module != "[kernel]" || got[0].Kind != KindKernel ||
				got[len(got)-1].ModuleOffset != s.Addr+off+slide || got[0].Offset != off {
				t.Fatalf("%s+%#x: got %+v, want %s", fn, off, got, chainOf(want))
			}
			compared++
			inlined += len(got) - 1
		}
	}
	if compared < 50 || inlined < 10 {
		t.Errorf("%d addresses, %d inlined calls", compared, inlined)
	}
	if f := k.Resolve(nil, []uint64{0xffffffffc0000001})[0]; f.Name != "one" || f.Module != "[module]" || f.Line != 0 {
		t.Errorf("a module's function got %+v", f)
	}

	// Another kernel's file is not taken, and the names stay.
	notes[len(notes)-1]++
	k, err = OpenKernel(&KernelOptions{Root: host, Source: true})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.SourceErr(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with another build-id: %v", err)
	}
	at := mustLookup(t, file, "one_static")
	if f := k.Resolve(nil, []uint64{at + slide})[0]; f.Name != "one_static" || f.Line != 0 {
		t.Errorf("without a vmlinux: %+v", f)
	}
}
