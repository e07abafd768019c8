package probe

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"math/bits"
	"slices"
)

// KernelSymbol is a function of the running kernel.
type KernelSymbol struct {
	Name    string // as /proc/kallsyms has it
	Module  string // "" for the kernel itself
	Address uint64 // where it begins
}

// kallsyms holds the kernel's functions, indexed by name. Names lie in one
// blob; 100,000 functions take some 5 MB.
type kallsyms struct {
	syms    []ksym
	names   []byte
	modules []string
	seed    maphash.Seed
	buckets []uint32 // index into syms + 1, open addressing
	byAddr  []uint32 // indices into syms by address
	hidden  bool     // every address reads as 0
}

type ksym struct {
	addr   uint64
	name   uint32
	length uint16
	module uint16 // index into modules + 1
}

// maxKallsyms bounds what is read: 2 million symbols of 100 bytes.
const maxKallsyms = 200 << 20

func (e *Env) loadKallsyms() (*kallsyms, error) {
	f, err := e.openKallsyms()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseKallsyms(f)
}

func (e *Env) openKallsyms() (fs.File, error) {
	f, err := e.root.Open("proc/kallsyms")
	if err != nil {
		hint := "the kernel was built without CONFIG_KALLSYMS, or /proc is not mounted"
		if errors.Is(err, fs.ErrPermission) {
			hint = "/proc/kallsyms may not be read"
		}
		return nil, &UnsupportedError{Feature: "kallsyms", Hint: hint, Err: err}
	}
	return f, nil
}

// parseKallsyms reads the functions of /proc/kallsyms: "ADDRESS TYPE NAME[\t[MODULE]]".
func parseKallsyms(r io.Reader) (*kallsyms, error) {
	// As large as a distribution's kernel with its modules needs: growing costs
	// more than the reading.
	return parseKallsymsOf(r, 120_000, 3<<20)
}

// parseKallsymsOf has room for so many functions, and bytes of their names, at first.
func parseKallsymsOf(r io.Reader, functions, names int) (*kallsyms, error) {
	k := &kallsyms{
		seed: maphash.MakeSeed(), hidden: true,
		names: make([]byte, 0, names), syms: make([]ksym, 0, functions),
	}
	moduleIndex := map[string]uint16{}
	lines := newLineReader(io.LimitReader(r, maxKallsyms))
	for n := 1; lines.next(); n++ {
		addr, typ, name, module, ok := kallsymsLine(lines.line)
		if !ok {
			return nil, fmt.Errorf("kallsyms:%d: bad line %.80q", n, lines.line)
		}
		if addr != 0 {
			k.hidden = false
		}
		if typ|0x20 != 't' && typ|0x20 != 'w' || len(name) > 1<<15 || string(module) == "bpf" {
			continue
		}
		s := ksym{addr: addr, name: uint32(len(k.names)), length: uint16(len(name))}
		if len(module) > 0 {
			i, ok := moduleIndex[string(module)]
			if !ok {
				k.modules = append(k.modules, string(module))
				i = uint16(len(k.modules))
				moduleIndex[string(module)] = i
			}
			s.module = i
		}
		k.names = append(k.names, name...)
		k.syms = append(k.syms, s)
	}
	if lines.err != nil {
		return nil, fmt.Errorf("kallsyms: %w", lines.err)
	}
	k.index()
	return k, nil
}

func kallsymsLine(b []byte) (addr uint64, typ byte, name, module []byte, ok bool) {
	i := 0
	for ; i < len(b) && i <= 16; i++ {
		d := hexDigit(b[i])
		if d > 15 {
			break
		}
		addr = addr<<4 | uint64(d)
	}
	if i == 0 || i > 16 || len(b) < i+4 || b[i] != ' ' || b[i+2] != ' ' {
		return 0, 0, nil, nil, false
	}
	typ, name = b[i+1], b[i+3:]
	if t := bytes.IndexByte(name, '\t'); t >= 0 {
		module = bytes.Trim(name[t+1:], "[] ")
		name = name[:t]
	}
	return addr, typ, name, module, len(name) > 0
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

func (k *kallsyms) index() {
	if len(k.syms) == 0 {
		return
	}
	k.buckets = make([]uint32, 1<<bits.Len(uint(len(k.syms)*3/2)))
	mask := uint64(len(k.buckets) - 1)
	for i := range k.syms {
		h := maphash.Bytes(k.seed, k.nameOf(i)) & mask
		for k.buckets[h] != 0 {
			h = (h + 1) & mask
		}
		k.buckets[h] = uint32(i + 1)
	}
}

func (k *kallsyms) nameOf(i int) []byte {
	s := &k.syms[i]
	return k.names[s.name : s.name+uint32(s.length)]
}

func (k *kallsyms) symbol(i int) KernelSymbol {
	s := &k.syms[i]
	out := KernelSymbol{Name: string(k.nameOf(i)), Address: s.addr}
	if s.module > 0 {
		out.Module = k.modules[s.module-1]
	}
	return out
}

// named yields the indices of the functions of a name, in the order of the file.
func (k *kallsyms) named(name []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(k.buckets) == 0 {
			return
		}
		mask := uint64(len(k.buckets) - 1)
		for h := maphash.Bytes(k.seed, name) & mask; k.buckets[h] != 0; h = (h + 1) & mask {
			i := int(k.buckets[h] - 1)
			if bytes.Equal(k.nameOf(i), name) && !yield(i) {
				return
			}
		}
	}
}

// lookup returns every function of that name, in the order of the file;
// module "" is any.
func (k *kallsyms) lookup(module, name string) []KernelSymbol {
	var out []KernelSymbol
	for i := range k.named([]byte(name)) {
		if s := k.symbol(i); module == "" || s.Module == module || module == "vmlinux" && s.Module == "" {
			out = append(out, s)
		}
	}
	return out
}

// at returns the function that covers the address, and the distance to the
// next one's start (0 if it is the last).
func (k *kallsyms) at(addr uint64) (s KernelSymbol, size uint64, ok bool) {
	if k.byAddr == nil {
		return s, 0, false
	}
	i, found := slices.BinarySearchFunc(k.byAddr, addr, func(i uint32, a uint64) int {
		switch v := k.syms[i].addr; {
		case v < a:
			return -1
		case v > a:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 {
		return s, 0, false
	}
	// Aliases: the first of the file's order stands for all.
	for i > 0 && k.syms[k.byAddr[i-1]].addr == k.syms[k.byAddr[i]].addr {
		i--
	}
	s = k.symbol(int(k.byAddr[i]))
	for j := i + 1; j < len(k.byAddr); j++ {
		if a := k.syms[k.byAddr[j]].addr; a > s.Address {
			size = a - s.Address
			break
		}
	}
	return s, size, true
}

// sorted builds the index by address.
func (k *kallsyms) sorted() {
	k.byAddr = make([]uint32, len(k.syms))
	for i := range k.byAddr {
		k.byAddr[i] = uint32(i)
	}
	slices.SortStableFunc(k.byAddr, func(a, b uint32) int {
		switch x, y := k.syms[a].addr, k.syms[b].addr; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// all yields the functions in the order of the file.
func (k *kallsyms) all() iter.Seq[KernelSymbol] {
	return func(yield func(KernelSymbol) bool) {
		for i := range k.syms {
			if !yield(k.symbol(i)) {
				return
			}
		}
	}
}

// KernelSymbols returns every kernel function of that name, several if it is
// ambiguous, none if there is none. Module "" is any, "vmlinux" the kernel
// itself. The first call reads /proc/kallsyms (tens of milliseconds).
func (e *Env) KernelSymbols(module, name string) ([]KernelSymbol, error) {
	k, err := e.syms()
	if err != nil {
		return nil, err
	}
	return k.lookup(module, name), nil
}

// KernelAddresses returns the addresses of kernel symbols of any kind, functions
// and data, by name; names that there are not are left out, and of several of
// one name the kernel's own goes before those of modules. Data is listed by
// kernels with CONFIG_KALLSYMS_ALL. Each call reads /proc/kallsyms (tens of
// milliseconds). Where the kernel hides addresses, the error matches
// errors.ErrUnsupported.
func (e *Env) KernelAddresses(names ...string) (map[string]uint64, error) {
	f, err := e.openKallsyms()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want := make(map[string]bool, len(names))
	for _, n := range names {
		want[n] = true
	}
	out := map[string]uint64{}
	modular := map[string]bool{}
	hidden := true
	lines := newLineReader(io.LimitReader(f, maxKallsyms))
	for n := 1; lines.next(); n++ {
		addr, _, name, module, ok := kallsymsLine(lines.line)
		if !ok {
			return nil, fmt.Errorf("kallsyms:%d: bad line %.80q", n, lines.line)
		}
		hidden = hidden && addr == 0
		if !want[string(name)] {
			continue
		}
		if _, have := out[string(name)]; !have || modular[string(name)] && len(module) == 0 {
			out[string(name)] = addr
			modular[string(name)] = len(module) > 0
		}
	}
	if lines.err != nil {
		return nil, fmt.Errorf("kallsyms: %w", lines.err)
	}
	if hidden && len(out) > 0 {
		return nil, &UnsupportedError{
			Feature: "kernel addresses",
			Hint:    "/proc/kallsyms shows zeros: kernel.kptr_restrict, or no CAP_SYSLOG",
		}
	}
	return out, nil
}

// lineReader splits a stream into lines without allocating.
type lineReader struct {
	r     io.Reader
	buf   []byte
	start int
	end   int
	line  []byte
	err   error
	eof   bool
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: r, buf: make([]byte, 256<<10)}
}

// next moves to the next line; it is false at the end and on errors. A line
// longer than the buffer is an error.
func (l *lineReader) next() bool {
	for {
		if i := bytes.IndexByte(l.buf[l.start:l.end], '\n'); i >= 0 {
			l.line = l.buf[l.start : l.start+i]
			l.start += i + 1
			return true
		}
		if l.eof {
			l.line = l.buf[l.start:l.end]
			l.start = l.end
			return len(l.line) > 0
		}
		copy(l.buf, l.buf[l.start:l.end])
		l.end -= l.start
		l.start = 0
		if l.end == len(l.buf) {
			l.err = errors.New("line too long")
			return false
		}
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if err == io.EOF {
			l.eof = true
		} else if err != nil {
			l.err = err
			return false
		}
	}
}
