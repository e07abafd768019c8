package userfile

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/probe/env"
)

// Symbol is a function of a user program or library.
type Symbol struct {
	Name    string
	Value   uint64 // virtual address
	Size    uint64
	Ifunc   bool
	Global  bool
	Version string
	// Default is set for the version that the linker takes for the name alone (NAME@@VERSION).
	Default bool
	section uint16
}

// WithELF opens a file, live or recorded, and calls f with it. Memory faults of a file that is
// truncated meanwhile become errors.
func WithELF(e *env.Env, from Sources, path string, f func(*elffile.File) error) (err error) {
	file, closer, err := OpenELF(e, from, path)
	if err != nil {
		return err
	}
	defer closer.Close()
	defer file.Close()
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	return f(file)
}

// OpenLive opens a file of this machine and records its identity.
func OpenLive(e *env.Env, from Sources, path string) (*os.File, error) {
	open := procfs.Open
	if from.Served {
		open = procfs.OpenServed
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := from.note(path, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenELF opens a file. The caller closes it, and then the closer.
func OpenELF(e *env.Env, from Sources, path string) (*elffile.File, io.Closer, error) {
	if _, _, zipped := CutZip(e, path); zipped {
		r, _, c, err := OpenAt(e, from, path)
		if err != nil {
			return nil, nil, err
		}
		f, err := elffile.New(r, r.Size())
		return boundELF(path, f, c, err)
	}
	var g fs.File
	var err error
	if e.Live() {
		g, err = OpenLive(e, from, path)
	} else {
		g, err = e.Root().Open(strings.TrimPrefix(path, "/"))
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := elffile.NewFS(g)
	if err == nil && e.Live() {
		from.noteBuild(path, f)
	}
	return boundELF(path, f, g, err)
}

// boundELF returns OpenELF's results for a file, or closes c if there was an error.
func boundELF(path string, f *elffile.File, c io.Closer, err error) (*elffile.File, io.Closer,
	error,
) {
	if err != nil {
		c.Close()
		return nil, nil, NotELF(path, err)
	}
	bound(f)
	return f, c, nil
}

// bound limits the memory for a file's sections to what real programs need: debug sections are
// 2 to 5 times as large as their compressed form.
func bound(f *elffile.File) { f.Bound(max(48<<20, 6*f.Stored())) }

// NotELF adds a hint to a format error: most often the path is that of a script.
func NotELF(path string, err error) error {
	var bad *elffile.FormatError
	if errors.As(err, &bad) && bad.Offset == 0 {
		return fmt.Errorf("%s is not an ELF file (a script? then probe its interpreter): %w", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Symbols calls yield for the functions of .symtab and .dynsym that want selects by name,
// twice for those that are in both. The name given to want is part of the file.
func Symbols(ctx context.Context, f *elffile.File, want func(name []byte) bool,
	yield func(Symbol) error,
) error {
	return f.SymbolTables(func(s *elffile.Section) error { return symbolsOf(ctx, f, s, want, yield) })
}

func symbolsOf(ctx context.Context, f *elffile.File, s *elffile.Section, want func([]byte) bool,
	yield func(Symbol) error,
) error {
	versions := versionsOf(f, s)
	return EachSymbol(ctx, f, s, func(i int, sym *elf.Sym64, n []byte) error {
		typ := elf.ST_TYPE(sym.Info)
		if typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC || len(n) == 0 || !want(n) {
			return nil
		}
		version, hidden := versions.of(i)
		return yield(Symbol{
			Name: string(n), Value: sym.Value, Size: sym.Size, section: sym.Shndx,
			Ifunc: typ == elf.STT_GNU_IFUNC, Global: elf.ST_BIND(sym.Info) != elf.STB_LOCAL,
			Version: version, Default: version != "" && !hidden,
		})
	})
}

// EachSymbol calls yield for the defined symbols of a table, with their numbers, until ctx
// ends.
func EachSymbol(ctx context.Context, f *elffile.File, s *elffile.Section,
	yield func(i int, sym *elf.Sym64, name []byte) error,
) error {
	t, err := f.Symbols(s)
	if err != nil {
		return err
	}
	for i, sym := range t.All() {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if sym.Shndx == uint16(elf.SHN_UNDEF) {
			continue
		}
		n, err := t.Name(&sym)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := yield(i, &sym, n); err != nil {
			return err
		}
	}
	return nil
}

// symVersions contains the version names of a dynamic symbol table's entries.
type symVersions struct {
	order binary.ByteOrder
	index []byte
	names map[uint16]string
}

// of returns the version of an entry, and whether the linker takes it only where it is named
// (VERSYM_HIDDEN).
func (v *symVersions) of(i int) (version string, hidden bool) {
	if v == nil || len(v.index) < 2*i+2 {
		return "", false
	}
	index := v.order.Uint16(v.index[2*i:])
	return v.names[index&0x7fff], index&0x8000 != 0
}

// versionsOf reads the versions that the file itself defines, from .gnu.version and
// .gnu.version_d (LSB core, "Symbol versioning").
func versionsOf(f *elffile.File, dynsym *elffile.Section) *symVersions {
	if dynsym.Type != elf.SHT_DYNSYM {
		return nil
	}
	sym, def := f.SectionOfType(elf.SHT_GNU_VERSYM), f.SectionOfType(elf.SHT_GNU_VERDEF)
	if sym == nil || def == nil || int(def.Link) >= len(f.Sections) {
		return nil
	}
	v := &symVersions{order: f.Order, names: map[uint16]string{}}
	var defs, strs []byte
	var err error
	if v.index, err = f.Data(sym); err != nil {
		return nil
	}
	if defs, err = f.Data(def); err != nil {
		return nil
	}
	if strs, err = f.Data(&f.Sections[def.Link]); err != nil {
		return nil
	}
	names := elffile.NewNames(strs)
	for off := uint64(0); off+20 <= uint64(len(defs)); {
		d := defs[off:]
		aux := off + uint64(f.Order.Uint32(d[12:]))
		if aux+8 <= uint64(len(defs)) {
			name, err := names.At(uint64(f.Order.Uint32(defs[aux:])))
			if err != nil {
				return nil
			}
			v.names[f.Order.Uint16(d[4:])&0x7fff] = string(name)
		}
		next := uint64(f.Order.Uint32(d[16:]))
		if next == 0 {
			break
		}
		off += next
	}
	return v
}

// IsGo reports whether the Go toolchain built the program.
func IsGo(f *elffile.File) bool {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo"} {
		if f.Section(name) != nil {
			return true
		}
	}
	return false
}

// Code returns size bytes of code at the virtual address value, at most 16 MB.
func Code(f *elffile.File, value, size uint64) ([]byte, error) {
	const maxFunction = 16 << 20
	if size > maxFunction {
		return nil, fmt.Errorf("a function of %d bytes", size)
	}
	return f.BytesAt(value, size)
}
