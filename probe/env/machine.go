package env

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/rawbtf"
	"github.com/borescope/borescope/internal/tracefs"
)

// Env holds what the decisions of a plan depend on: the kernel's types, tracepoint formats,
// symbols and features, and the architecture, live or recorded. It reads each of them when it
// is first needed, and keeps it.
//
// An Env is safe for concurrent use. It holds no descriptor.
type Env struct {
	root     fs.FS
	live     bool // root is this machine
	arch     string
	release  string
	features feature.Set
	btfDir   fs.FS
	debug    []string

	types   *btf.Cache // this machine's; nil of a recording
	given   bool       // btf is what the caller gave
	btf     func() (*btf.Spec, error)
	btfHere atomic.Pointer[btf.Spec] // what btf returned, once it did

	blobMu   sync.Mutex
	blobHere weak.Pointer[rawbtf.Blob] // guarded by blobMu
	blobHub  bool                      // guarded by blobMu: blobHere is from btfDir

	functions []byte // that can be traced, as the caller gave them
	modules   memo[string, *btf.Spec]
	formats   memo[string, *Format]
	syms      func() (*kallsyms.Functions, error)
	traced    func() (*Traceable, error)
	// patchable returns the kernel's own list, of which traced leaves some out.
	patchable func() (*Traceable, error)
	tramps    func() (map[string]uint32, error)
}

// memo remembers results by key.
type memo[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]memoized[V]
}

type memoized[V any] struct {
	v   V
	err error
}

// do returns the result of the first call of f for the key.
func (m *memo[K, V]) do(k K, f func() (V, error)) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.m[k]; ok {
		return a.v, a.err
	}
	v, err := f()
	if m.m == nil {
		m.m = make(map[K]memoized[V])
	}
	m.m[k] = memoized[V]{v, err}
	return v, err
}

// New returns a new environment; nil options describe this machine. It reads only the
// kernel's release.
func New(o *Options) *Env {
	if o == nil {
		o = &Options{}
	}
	e := &Env{
		root: o.Root, live: o.Root == nil, arch: o.Arch, release: o.Release,
		features: o.Features, btfDir: o.BTFDir, debug: o.DebugDirs, functions: o.Traceable,
	}
	if e.debug == nil {
		e.debug = []string{elffile.DebugDir}
	}
	if e.live {
		e.root = procfs.DirFS("/")
		e.types = btf.NewCache()
	}
	if e.arch == "" {
		e.arch = runtime.GOARCH
	}
	if e.release == "" {
		b, _ := fs.ReadFile(e.root, "proc/sys/kernel/osrelease")
		e.release = strings.TrimSpace(string(b))
	}
	if o.BTF != nil {
		spec := o.BTF
		e.given = true
		e.btf = func() (*btf.Spec, error) { return spec, nil }
		e.btfHere.Store(spec)
	} else {
		e.btf = sync.OnceValues(e.loadBTF)
	}
	e.syms = sync.OnceValues(e.loadKallsyms)
	e.traced = sync.OnceValues(e.loadTraceable)
	e.patchable = sync.OnceValues(e.loadPatchable)
	e.tramps = sync.OnceValues(e.loadTrampolines)
	return e
}

// Root returns the file system that the Env reads: this machine's, or a recorded one.
func (e *Env) Root() fs.FS { return e.root }

// Files returns the files of the machine as Options.Root takes them, for a recording: Root, but
// tracefs is at sys/kernel/tracing, though on this machine it may be mounted elsewhere, or be a
// mount of the process's own, which release removes. Without tracefs they are Root's.
func (e *Env) Files() (files fs.FS, release func() error) {
	dir, err := tracefs.Find(e.root, e.live)
	if err != nil {
		return e.root, func() error { return nil }
	}
	return dir.Files(e.root), dir.Close
}

// Live reports whether the Env describes this machine.
func (e *Env) Live() bool { return e.live }

// DebugDirs returns the directories with separate debug files. It is shared: do not change it.
func (e *Env) DebugDirs() []string { return e.debug }

// Arch returns the architecture, as GOARCH spells it.
func (e *Env) Arch() string { return e.arch }

// Release returns the kernel's release, "6.1.0-56-cloud-amd64", empty if unknown.
func (e *Env) Release() string { return e.release }

// Supports returns nil if the kernel has the feature, an *UnsupportedError with the true
// cause if it does not, and another error if that is not known. A recorded environment uses
// its recorded features or, if it has none, the kernel's release.
func (e *Env) Supports(f Feature) error {
	if e.live || e.features != nil {
		return e.features.Test(f)
	}
	return e.infer(f)
}

// infer is Supports by the kernel's version, for recordings without features.
func (e *Env) infer(f Feature) error {
	since, ok := feature.ParseVersion(f.Since())
	have, known := feature.ParseVersion(e.release)
	switch {
	case !ok || !known:
		return &feature.UnknownError{
			Feature: f.String(),
			Hint:    "the recording holds no features, and a kernel version does not tell",
		}
	case f == feature.BTF:
		_, err := fs.Stat(e.root, "sys/kernel/btf/vmlinux")
		if err != nil {
			return &feature.UnsupportedError{
				Feature: f.String(), Since: f.Since(),
				Hint: "the recording holds no BTF", Err: err,
			}
		}
		return nil
	case have.Before(since):
		return &feature.UnsupportedError{
			Feature: f.String(), Since: f.Since(),
			Hint: "the kernel is " + e.release,
		}
	}
	return nil
}

// OnlineCPUs returns the online CPUs, ascending.
func (e *Env) OnlineCPUs() ([]int, error) {
	list, err := cpus.Online(e.root)
	if err != nil {
		return nil, fmt.Errorf("online CPUs: %w", err)
	}
	return list, nil
}
