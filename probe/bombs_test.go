package probe

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
)

// Two thousand headers of one symbol table made a file of 7 MB take 1.5 GB.
func TestManyTables(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	image := elfbuild.ManyTables(2000, elfbuild.SymbolTable{N: 1000, Step: 16, Size: 16, Names: 8})
	f, err := elffile.New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	err = symbols(t.Context(), f, func([]byte) bool { return true }, func(elfSymbol) error { n++; return nil })
	if !errors.Is(err, elffile.ErrTooLarge) || n > len(image)/24 {
		t.Errorf("%d symbols of a file of %d bytes, %v; want %v", n, len(image), err, elffile.ErrTooLarge)
	}
}

// bombedCache is an ld.so.cache whose entries are all of the same long text.
func bombedCache(entries int) []byte {
	o := binary.LittleEndian
	b := append([]byte("glibc-ld.so.cache1.1"), make([]byte, 28)...)
	o.PutUint32(b[20:], uint32(entries))
	text := uint32(len(b) + 24*entries)
	for range entries {
		b = o.AppendUint32(b, ldFlags["amd64"])
		b = o.AppendUint32(o.AppendUint32(b, text+3840), text)
		b = append(b, make([]byte, 12)...)
	}
	return append(b, strings.Repeat("a", 4094)+"\x00"...)
}

// stapsdt is a note of a USDT probe in the program's code.
func stapsdt(args string) []byte {
	desc := binary.LittleEndian.AppendUint64(nil, elfbuild.ProgramText)
	desc = append(desc, make([]byte, 16)...)
	return elfnotes.Append(nil, elfnotes.Note{
		Owner: "stapsdt", Type: 3, Desc: append(desc, "p\x00n\x00"+args+"\x00"...), Order: binary.LittleEndian,
	}, 4)
}

// Files that anybody may write took hundreds of megabytes and seconds to find a place
// in: what is read of them is bounded by what they take up.
func TestBombs(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	notes := func(flags elf.SectionFlag, data []byte) []byte {
		return elfbuild.Program(elfbuild.Section{Name: ".note.stapsdt", Type: elf.SHT_NOTE, Flags: flags, Data: data, Align: 4}).Bytes()
	}
	var sites []byte
	for i := range 16_000 {
		sites = append(sites, stapsdt(fmt.Sprintf("8@$%d", i))...)
	}
	compressed := elfbuild.SymbolTable{N: 1, Size: 16, Names: 4}.Compressed(96 << 20)
	same := stapsdt("8@$1")
	var debug []elfbuild.Section
	few := elfbuild.Compressed(nil, 4<<20)
	for i := range 40 {
		debug = append(debug, elfbuild.Section{
			Name: fmt.Sprintf(".debug_%d", i), Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Data: few,
		})
	}
	typed := elfbuild.SymbolTable{N: 1, Size: 16, Names: 1}.Sections()
	zeros := elfbuild.Compressed(nil, 128<<20)
	for _, name := range []string{".debug_abbrev", ".debug_info", ".debug_line", ".debug_str"} {
		typed = append(typed, elfbuild.Section{Name: name, Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Data: zeros})
	}
	many := elfbuild.ManyTables(2000, elfbuild.SymbolTable{N: 3000, Step: 16, Size: 16, Names: 4})
	for _, tt := range []struct {
		name, target string
		image        []byte
		file         string // instead of the program
		want         error  // nil: any, or none
	}{
		{"tables over tables, by address", "uprobe:/bin/x:0x1000", many, "", elffile.ErrTooLarge},
		{"tables over tables, by name", "uprobe:/bin/x:a*", many, "", elffile.ErrTooLarge},
		{"compressed symbols, by name", "uprobe:/bin/x:a*", elfbuild.Program(compressed...).Bytes(), "", elffile.ErrTooLarge},
		{"compressed symbols, by address", "uprobe:/bin/x:0x1000", elfbuild.Program(compressed...).Bytes(), "", elffile.ErrTooLarge},
		{"compressed sections", "uprobe:/bin/x:0x1000", elfbuild.Program(debug...).Bytes(), "", nil},
		{"compressed DWARF", "uprobe:/bin/x:a*", elfbuild.Program(typed...).Bytes(), "", nil},
		{"compressed DWARF, by line", "uprobe:/bin/x:x.c:1", elfbuild.Program(typed...).Bytes(), "", elffile.ErrTooLarge},
		{"argument sets", "usdt:/bin/x:p:n", notes(0, sites), "", nil},
		{"compressed notes", "usdt:/bin/x:p:n", notes(elf.SHF_COMPRESSED, elfbuild.Compressed(nil, 64<<20, same...)), "", nil},
		{"ld.so.cache", "uprobe:nothing:f", bombedCache(43_000), "etc/ld.so.cache", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := EnvOptions{Arch: "amd64", Release: "6.12.0-test", Features: all()}
			target := tt.target
			if tt.file != "" {
				o.Root = fstest.MapFS{tt.file: {Data: tt.image}}
			} else { // one of this machine, which is mapped
				path := filepath.Join(t.TempDir(), "x")
				if err := os.WriteFile(path, tt.image, 0o755); err != nil {
					t.Fatal(err)
				}
				target = strings.Replace(target, "/bin/x", path, 1)
			}
			env := NewEnv(&o)
			var plan *Plan
			var err error
			mem, cpu := meter.Bounded(t, len(tt.image), func() { plan, err = Resolve(env, []Target{mustParse(t, target)}, &Options{DWARF: true}) })
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			places := 0
			if plan != nil {
				for i := range plan.Programs {
					places += len(plan.Programs[i].Sites)
				}
			}
			said := fmt.Sprint(err)
			t.Logf("%d bytes of file: %d of memory, %v: %d places, %.120s", len(tt.image), mem, cpu.Round(time.Millisecond), places, said)
		})
	}
}

// ending is a context that ends when it was asked so many times.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestResolveGivesUp: the end of a context ends the work on a file, not only the wait
// for it.
func TestResolveGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	image := elfbuild.Program(elfbuild.SymbolTable{N: 100_000, Step: 16, Size: 16, Names: 4}.Sections()...).Bytes()
	if err := os.WriteFile(path, image, 0o755); err != nil {
		t.Fatal(err)
	}
	env := NewEnv(&EnvOptions{Arch: "amd64", Release: "6.12.0-test", Features: all()})
	for _, target := range []string{"uprobe:" + path + ":b*", "uprobe:" + path + ":a*", "uprobe:" + path + ":0x1000"} {
		const left = 8 // of the 25 times for each pass over the table
		ctx := &ending{context.Background(), left}
		if _, err := ResolveContext(ctx, env, []Target{mustParse(t, target)}, nil); !errors.Is(err, context.Canceled) || ctx.left < -3 {
			t.Errorf("%s: %v, asked %d times after the end", target, err, -ctx.left)
		}
	}
}
