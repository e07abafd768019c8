package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/feature"
)

// Env is what the decisions of a plan depend on: the kernel's types,
// tracepoint formats, symbols and features, and the architecture, live or
// recorded. Whatever it reads, it reads when it is first asked for, and keeps.
//
// An Env is safe for concurrent use. It holds no descriptor.
type Env struct {
	root     fs.FS
	live     bool // root is this machine
	arch     string
	release  string
	features feature.Set
	btfDir   fs.FS

	btf     func() (*btf.Spec, error)
	btfHere atomic.Pointer[btf.Spec] // what btf returned, once it did
	modules memo[string, *btf.Spec]
	formats memo[string, *Format]
	syms    func() (*kallsyms, error)
	traced  func() (*traceable, error)
	// patchable is the kernel's own list, of which traced leaves some out.
	patchable func() (*traceable, error)
	tramps    func() (map[string]uint32, error) // functions for tracing.multi, by their ids in BTF
	tracefs   func() (string, error)
}

// memo remembers the answers to questions by key.
type memo[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]memoized[V]
}

type memoized[V any] struct {
	v   V
	err error
}

// do returns what f returned for the key when it was first asked.
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

// NewEnv makes an environment; nil options are this machine. It reads nothing
// but the kernel's release.
func NewEnv(o *EnvOptions) *Env {
	if o == nil {
		o = &EnvOptions{}
	}
	e := &Env{
		root: o.Root, live: o.Root == nil, arch: o.Arch, release: o.Release,
		features: o.Features, btfDir: o.BTFDir,
	}
	if e.live {
		e.root = os.DirFS("/")
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
		e.btf = func() (*btf.Spec, error) { return spec, nil }
		e.btfHere.Store(spec)
	} else {
		e.btf = sync.OnceValues(e.loadBTF)
	}
	e.syms = sync.OnceValues(e.loadKallsyms)
	e.traced = sync.OnceValues(e.loadTraceable)
	e.patchable = sync.OnceValues(e.loadPatchable)
	e.tramps = sync.OnceValues(e.loadTrampolines)
	e.tracefs = sync.OnceValues(e.findTracefs)
	return e
}

// Arch is the architecture, as GOARCH spells it.
func (e *Env) Arch() string { return e.arch }

// Release is the kernel's release, "6.1.0-56-cloud-amd64", empty if unknown.
func (e *Env) Release() string { return e.release }

// Supports returns nil if the kernel has the feature, *UnsupportedError with
// the true cause if it has not, and another error if that can't be told. A
// recorded environment answers from its features, or, without any, by the
// kernel's release.
func (e *Env) Supports(f Feature) error {
	if e.live || e.features != nil {
		return e.features.Test(f)
	}
	return e.infer(f)
}

// infer answers by the kernel's version, for recordings without features.
func (e *Env) infer(f Feature) error {
	since, ok := parseVersion(f.Since())
	have, known := parseVersion(e.release)
	switch {
	case !ok || !known:
		return &feature.UnknownError{Feature: f.String(), Hint: "the recording holds no features, and a kernel version does not tell"}
	case f == feature.BTF:
		_, err := fs.Stat(e.root, "sys/kernel/btf/vmlinux")
		if err != nil {
			return &UnsupportedError{Feature: f.String(), Since: f.Since(), Hint: "the recording holds no BTF", Err: err}
		}
		return nil
	case have[0] < since[0] || have[0] == since[0] && have[1] < since[1]:
		return &UnsupportedError{Feature: f.String(), Since: f.Since(), Hint: "the kernel is " + e.release}
	}
	return nil
}

func (e *Env) has(f Feature) bool { return e.Supports(f) == nil }

// parseVersion reads "6.1" of "6.1.0-56-cloud-amd64".
func parseVersion(t string) (v [2]int, ok bool) {
	for i := range v {
		n := 0
		for n < len(t) && t[n] >= '0' && t[n] <= '9' {
			n++
		}
		x, err := strconv.Atoi(t[:n])
		if err != nil {
			return v, i == 1
		}
		v[i] = x
		t = strings.TrimPrefix(t[n:], ".")
	}
	return v, true
}

// OnlineCPUs returns the CPUs that are running, ascending.
func (e *Env) OnlineCPUs() ([]int, error) {
	list, err := cpus.Online(e.root)
	if err != nil {
		return nil, fmt.Errorf("online CPUs: %w", err)
	}
	return list, nil
}

// tracefsDirs are where tracefs is mounted, by custom and by the kernel's
// automount below debugfs.
var tracefsDirs = []string{"sys/kernel/tracing", "sys/kernel/debug/tracing"}

// findTracefs finds the mount, and says what to do where there is none.
func (e *Env) findTracefs() (string, error) {
	var denied error
	for _, dir := range tracefsDirs {
		_, err := fs.Stat(e.root, dir+"/events")
		if err == nil {
			return dir, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if dir := e.mountedTracefs(); dir != "" {
		return dir, nil
	}
	if denied != nil {
		return "", &UnsupportedError{
			Feature: "tracefs", Err: denied,
			Hint: "/sys/kernel/tracing is readable by root only; run as root or remount it with gid= or mode=755",
		}
	}
	return "", &UnsupportedError{
		Feature: "tracefs",
		Hint:    "it is not mounted: mount -t tracefs tracefs /sys/kernel/tracing (in a container, bind-mount the host's)",
		Err:     fs.ErrNotExist,
	}
}

// mountedTracefs looks for another mount point in /proc/self/mounts.
func (e *Env) mountedTracefs() string {
	b, err := fs.ReadFile(e.root, "proc/self/mounts")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[2] == "tracefs" {
			dir := strings.TrimPrefix(f[1], "/")
			if _, err := fs.Stat(e.root, dir+"/events"); err == nil {
				return dir
			}
		}
	}
	return ""
}
