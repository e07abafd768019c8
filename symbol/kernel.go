package symbol

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/symbol/internal/index"
	"github.com/borescope/borescope/symbol/internal/ksyms"
)

// Kernel names kernel addresses from /proc/kallsyms: functions of the kernel and of its
// modules ("[ext4]"), and BPF programs and trampolines ("[bpf]"). It is a snapshot: code that
// is loaded later is in the next one that OpenKernel returns, or in that of With. It is safe
// for concurrent use.
type Kernel struct {
	opts KernelOptions

	load   func() (*ksyms.Table, error)
	asked  atomic.Bool  // a name was looked up before: the table is worth its memory
	source *lazySource  // nil without KernelOptions.Source
	size   atomic.Int64 // of the table, once it is loaded

	// live are the events that With was given, by address, and in order.
	live   map[uint64]KernelSymbol
	sorted []KernelSymbol

	mu       sync.Mutex
	memo     index.Memo[uint32, string] // names of symbols, by index; guarded by mu
	cacheErr error                      // guarded by mu
}

// KernelOptions are the options for reading kernel symbols. The zero value, or nil, is this
// machine's /proc/kallsyms and code only.
type KernelOptions struct {
	// Root is the host tree with proc/kallsyms; nil means this machine's.
	Root fs.FS
	// Data keeps variables too. On some kernels that doubles the number of symbols.
	Data bool
	// Cache is the path of a file that keeps the table between runs; empty means no cache.
	// The file is read instead of /proc/kallsyms if this is the same boot with the same
	// modules, else it is written, with mode 0600. Code that comes and goes without a
	// module (BPF programs, trampolines) is not kept in it: add it by With.
	Cache string
	// NameCache is the most memory for names made into strings, in bytes; 0 means 1 MiB.
	NameCache int64
	// Source also reads the DWARF of the kernel and its modules, for file, line, column and
	// inlined calls. It comes from an installed vmlinux, modules and debug files that have
	// the build-ids of the running ones (the distribution's debug package, or a kernel's
	// own build). SourceErr returns why there is no vmlinux. Close frees them. Modules'
	// section addresses in /sys need root.
	Source bool
	// VMLinux is the path of that file; empty means the usual places of distributions.
	VMLinux string
}

// ErrHidden is the error when /proc/kallsyms shows no addresses to this process:
// kernel.kptr_restrict is 2, or it is 1 (or kernel.perf_event_paranoid above 1) and the
// process has no CAP_SYSLOG.
var ErrHidden = errors.New("kernel addresses are hidden: kernel.kptr_restrict, or no CAP_SYSLOG")

// OpenKernel returns the kernel's symbols; opts may be nil. Nothing is read before the
// first lookup, which takes as long as the kernel needs to print its table (40 ms for
// 120,000 symbols on the development machine).
func OpenKernel(opts *KernelOptions) (*Kernel, error) {
	k := newKernel(opts)
	f, err := kallsyms.Open(procfs.Root(k.opts.Root))
	if err != nil {
		return nil, err
	}
	return k, f.Close()
}

func newKernel(opts *KernelOptions) *Kernel {
	k := &Kernel{}
	if opts != nil {
		k.opts = *opts
	}
	k.memo.Limit = k.opts.NameCache
	if k.memo.Limit <= 0 {
		k.memo.Limit = 1 << 20
	}
	k.memo.CostFunc = func(s string) int64 { return int64(len(s)) }
	k.load = sync.OnceValues(func() (*ksyms.Table, error) {
		k.asked.Store(true)
		return k.loaded(k.read())
	})
	if k.opts.Source {
		k.source = &lazySource{open: k.openSource}
	}
	return k
}

func (k *Kernel) loaded(t *ksyms.Table, err error) (*ksyms.Table, error) {
	if t != nil {
		k.size.Store(t.Bytes())
	}
	return t, err
}

// ParseKallsyms reads a table in the format of /proc/kallsyms, code and data.
func ParseKallsyms(r io.Reader) (*Kernel, error) {
	k := newKernel(&KernelOptions{Data: true})
	t, err := ksyms.Parse(r, true)
	if err != nil {
		return nil, err
	}
	k.load = func() (*ksyms.Table, error) { return t, nil }
	k.asked.Store(true)
	_, _ = k.loaded(t, nil)
	return k, nil
}

func (k *Kernel) read() (*ksyms.Table, error) {
	if k.opts.Cache == "" {
		return k.readKallsyms()
	}
	key, err := k.cacheKey()
	if err != nil {
		k.setCacheErr(err)
		return k.readKallsyms()
	}
	t, err := readKernelCache(k.opts.Cache, key)
	if err == nil {
		return t, nil
	}
	if t, err = k.readKallsyms(); err == nil && !t.Hidden {
		k.setCacheErr(writeKernelCache(k.opts.Cache, key, t))
	}
	return t, err
}

func (k *Kernel) readKallsyms() (*ksyms.Table, error) {
	return k.parse(func(r io.Reader) (*ksyms.Table, error) { return ksyms.Parse(r, k.opts.Data) })
}

func (k *Kernel) parse(parse func(io.Reader) (*ksyms.Table, error)) (*ksyms.Table, error) {
	f, err := kallsyms.Open(procfs.Root(k.opts.Root))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ahead := newReadAhead(f)
	defer ahead.stop()
	return parse(ahead)
}

// tableFor returns the table. The first call for several addresses may also be the last, so
// it gets a table of only the symbols next to these.
func (k *Kernel) tableFor(pcs []uint64) (*ksyms.Table, error) {
	if len(pcs) < 2 || k.opts.Cache != "" || k.asked.Swap(true) {
		return k.load()
	}
	return k.parse(func(r io.Reader) (*ksyms.Table, error) {
		return ksyms.ParseNear(r, k.opts.Data, pcs)
	})
}

// Err reads the table if that was not done yet, and returns its error: ErrHidden, or why it
// could not be read. Resolve reports the same errors as reasons.
func (k *Kernel) Err() error {
	t, err := k.load()
	if err != nil {
		return fmt.Errorf("kernel symbols: %w", err)
	}
	if t.Hidden {
		return ErrHidden
	}
	return nil
}

// CacheErr returns why KernelOptions.Cache could not be used or written; nil before the
// table was read. Addresses are named in either case.
func (k *Kernel) CacheErr() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cacheErr
}

func (k *Kernel) setCacheErr(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cacheErr = err
}

// Resolve implements Resolver. A first call with several addresses does not keep the table:
// a program that names all its addresses in one call needs no memory for it.
func (k *Kernel) Resolve(dst []Frame, pcs []uint64) []Frame {
	t, err := k.tableFor(pcs)
	var src *kernelSource
	if k.source != nil {
		src = k.source.get()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, pc := range pcs {
		dst = append(dst, Frame{Index: i, Module: "[kernel]", ModuleOffset: pc, Kind: KindKernel})
		fr := &dst[len(dst)-1]
		switch {
		case len(k.sorted) > 0 && k.nameLive(fr, pc):
		case err != nil:
			fr.Reason = ReasonNoKallsyms
		case t.Hidden:
			fr.Reason = ReasonHidden
		case t.Len() == 0:
			fr.Reason = ReasonNoSymbols
		default:
			k.name(t, fr, pc)
			if src != nil && fr.Kind == KindKernel && fr.Name != "" {
				dst = src.append(dst[:len(dst)-1], *fr, fr.Module != "[kernel]")
			}
		}
	}
	return dst
}

// maxLastSize is the largest distance from the last symbol of the kernel or of a module at
// which an address is still given to it: kallsyms states no sizes.
const maxLastSize = 1 << 16

// name names one address. The caller holds mu.
func (k *Kernel) name(t *ksyms.Table, fr *Frame, pc uint64) {
	i := t.Find(pc)
	if i < 0 {
		fr.Reason, fr.Module = ReasonNoSymbol, ""
		return
	}
	start := t.At(i)
	mod := t.Module(i)
	// A symbol ends at the next symbol of another address. The end of a module's last symbol is
	// unknown.
	size, exact := uint64(0), false
	next := t.Next(i)
	if next < t.Len() {
		if end := t.At(next); end-start < maxLastSize || t.Module(next) == mod {
			size, exact = end-start, t.Module(next) == mod
		}
	}
	if !exact && pc-start >= maxLastSize {
		fr.Reason, fr.Module = ReasonNoSymbol, ""
		return
	}
	if t.EndsSection(i) && pc != start {
		fr.Reason = ReasonNoSymbol
		return
	}
	fr.Name, fr.Module, fr.Offset, fr.Size = k.str(t, i), mod, pc-start, size
	fr.Confidence = ConfidenceExact
	if !exact {
		fr.Confidence, fr.Size = ConfidenceNoSize, 0
	}
	fr.Kind = kernelKind(mod, t.Type(i))
}

func kernelKind(mod string, typ byte) Kind {
	switch {
	case mod == "[bpf]" || mod == "[__builtin__bpf]":
		return KindBPF
	case !ksyms.IsCode(typ):
		return KindData
	}
	return KindKernel
}

// str returns the name of symbol i. The caller holds mu.
func (k *Kernel) str(t *ksyms.Table, i int) string {
	if t.Names != nil {
		if t.Names[i] == "" {
			t.Names[i] = string(t.Name(i))
		}
		return t.Names[i]
	}
	if s, ok := k.memo.Get(uint32(i)); ok {
		return s
	}
	s := string(t.Name(i))
	k.memo.Put(uint32(i), s)
	return s
}

var _ Resolver = (*Kernel)(nil)
