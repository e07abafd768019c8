package kallsyms

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"io"
	"iter"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
)

// Symbol is a function of the running kernel.
type Symbol struct {
	Name    string // as in /proc/kallsyms
	Module  string // "" for the kernel itself
	Address uint64 // of its first instruction
}

// Functions contains the kernel's functions, except those of BPF programs, indexed by name.
// The names are in one blob; 100,000 functions take about 5 MB.
type Functions struct {
	// Hidden is set if the kernel hides addresses: every address is 0.
	Hidden bool

	syms    []function
	names   []byte
	modules []string
	seed    maphash.Seed
	buckets []uint32 // index into syms + 1, open addressing
	byAddr  func() []uint32
}

type function struct {
	addr   uint64
	name   uint32
	length uint16
	module uint16 // index into modules + 1
}

// Read reads the functions of /proc/kallsyms.
func Read(r io.Reader) (*Functions, error) {
	// The capacity is enough for a distribution's kernel with its modules, because growing
	// costs more than reading.
	return read(r, 120_000, 3<<20)
}

// read is Read with initial capacity for the given numbers of functions and of bytes of their
// names.
func read(r io.Reader, functions, names int) (*Functions, error) {
	k := &Functions{
		seed: maphash.MakeSeed(), Hidden: true,
		names: make([]byte, 0, names), syms: make([]function, 0, functions),
	}
	moduleIndex := map[string]uint16{}
	lines := NewLines(r)
	for lines.Next() {
		if lines.Address != 0 {
			k.Hidden = false
		}
		if t := lines.Type | 0x20; t != 't' && t != 'w' || string(lines.Module()) == "bpf" {
			continue
		}
		s := function{addr: lines.Address, name: uint32(len(k.names)), length: uint16(len(lines.Name()))}
		if len(lines.Module()) > 0 {
			i, ok := moduleIndex[string(lines.Module())]
			if !ok {
				k.modules = append(k.modules, string(lines.Module()))
				i = uint16(len(k.modules))
				moduleIndex[string(lines.Module())] = i
			}
			s.module = i
		}
		k.names = append(k.names, lines.Name()...)
		k.syms = append(k.syms, s)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	k.index()
	k.byAddr = sync.OnceValue(k.sorted)
	return k, nil
}

func (k *Functions) index() {
	if len(k.syms) == 0 {
		return
	}
	k.buckets = make([]uint32, 1<<bits.Len(uint(len(k.syms)*3/2)))
	mask := uint64(len(k.buckets) - 1)
	for i := range k.syms {
		h := maphash.Bytes(k.seed, k.name(i)) & mask
		for k.buckets[h] != 0 {
			h = (h + 1) & mask
		}
		k.buckets[h] = uint32(i + 1)
	}
}

func (k *Functions) name(i int) []byte {
	s := &k.syms[i]
	return k.names[s.name : s.name+uint32(s.length)]
}

func (k *Functions) symbol(i int) Symbol {
	s := &k.syms[i]
	out := Symbol{Name: string(k.name(i)), Address: s.addr}
	if s.module > 0 {
		out.Module = k.modules[s.module-1]
	}
	return out
}

// named returns an iterator over the indices of the functions with a name, in the order of the
// file.
func (k *Functions) named(name []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(k.buckets) == 0 {
			return
		}
		mask := uint64(len(k.buckets) - 1)
		for h := maphash.Bytes(k.seed, name) & mask; k.buckets[h] != 0; h = (h + 1) & mask {
			i := int(k.buckets[h] - 1)
			if bytes.Equal(k.name(i), name) && !yield(i) {
				return
			}
		}
	}
}

// Lookup returns every function of that name, in the order of the file. Module "" means any,
// "vmlinux" the kernel itself.
func (k *Functions) Lookup(module, name string) []Symbol {
	var out []Symbol
	for i := range k.named([]byte(name)) {
		if s := k.symbol(i); module == "" || s.Module == module || module == "vmlinux" && s.Module == "" {
			out = append(out, s)
		}
	}
	return out
}

// sorted returns the indices of the functions, sorted by address.
func (k *Functions) sorted() []uint32 {
	out := make([]uint32, len(k.syms))
	for i := range out {
		out[i] = uint32(i)
	}
	slices.SortStableFunc(out, func(a, b uint32) int {
		return cmp.Compare(k.syms[a].addr, k.syms[b].addr)
	})
	return out
}

// At returns the function that contains the address, and the distance from its start to the
// next function's (0 if it is the last).
func (k *Functions) At(addr uint64) (s Symbol, size uint64, ok bool) {
	byAddr := k.byAddr()
	i, found := slices.BinarySearchFunc(byAddr, addr, func(i uint32, a uint64) int {
		return cmp.Compare(k.syms[i].addr, a)
	})
	if !found {
		i--
	}
	if i < 0 {
		return s, 0, false
	}
	// It returns the first in the file of several aliases.
	for i > 0 && k.syms[byAddr[i-1]].addr == k.syms[byAddr[i]].addr {
		i--
	}
	s = k.symbol(int(byAddr[i]))
	for _, j := range byAddr[i+1:] {
		if a := k.syms[j].addr; a > s.Address {
			size = a - s.Address
			break
		}
	}
	return s, size, true
}

// All returns an iterator over the functions, in the order of the file.
func (k *Functions) All() iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		for i := range k.syms {
			if !yield(k.symbol(i)) {
				return
			}
		}
	}
}

// Renamed returns the functions that LLVM's link-time optimization renamed, with their
// parameters as they were: name.llvm.1234. The kernel finds them by the name before that
// (cleanup_symbol_name in kernel/kallsyms.c).
func (k *Functions) Renamed(module, name string) []Symbol {
	var out []Symbol
	for _, clone := range k.Clones(name) {
		if strings.HasPrefix(clone[len(name):], ".llvm.") {
			out = append(out, k.Lookup(module, clone)...)
		}
	}
	return out
}

// Clones returns the copies that the compiler made of a function: name.isra.0,
// name.constprop.0, name.part.0, name.cold.
func (k *Functions) Clones(name string) []string {
	var out []string
	for i := range k.syms {
		n := k.name(i)
		if len(n) > len(name)+1 && n[len(name)] == '.' && string(n[:len(name)]) == name {
			out = append(out, string(n))
		}
	}
	return out
}

// Absent returns the error for a function that does not exist, with functions that may be
// meant instead.
func (k *Functions) Absent(module, name string) error {
	if module != "" {
		if s := k.Lookup("", name); len(s) > 0 {
			where := "the kernel itself"
			if s[0].Module != "" {
				where = "module " + s[0].Module
			}
			return notexist.Errorf("no function %s in module %s; %s has one", name, module, where)
		}
	}
	if clones := k.Clones(name); len(clones) > 0 {
		return notexist.Errorf("%s exists only as %s, which the compiler made of it and whose arguments may differ; probe that by its full name",
			name, strings.Join(clones, ", "))
	}
	meant := near.New(name)
	for s := range k.All() {
		if module == "" || s.Module == module {
			meant.Add(s.Name)
		}
	}
	return notexist.Errorf("no kernel function %s%s", name, meant.Hint())
}

// Own returns the kernel's own functions, not those of modules: those with names that pick
// passes to add and that are not in without. They are in the order of the file, which is that
// of addresses.
func (k *Functions) Own(pick func(add func(name []byte)) error, without Blacklist) ([]Symbol,
	error,
) {
	have := make([]bool, len(k.syms))
	n := 0
	err := pick(func(name []byte) {
		for i := range k.named(name) {
			if k.syms[i].module == 0 && !have[i] {
				have[i] = true
				n++
			}
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]Symbol, 0, n)
	names := string(k.names) // one string for all
	for i, ok := range have {
		if !ok {
			continue
		}
		s := &k.syms[i]
		if name := names[s.name : s.name+uint32(s.length)]; !without.Has(name) {
			out = append(out, Symbol{Name: name, Address: s.addr})
		}
	}
	return out, nil
}
