package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/notexist"
)

// maxBTF bounds a BTF blob that is read from a recording or an archive; the
// largest distribution kernels have 10 MiB.
const maxBTF = 128 << 20

// BTF returns the kernel's type information, which it reads at the first call (on Linux
// 6.18: 5.5 MB, 10–20 ms), or an error that says why there is none. The Spec is shared: do
// not change it.
func (e *Env) BTF() (*btf.Spec, error) { return e.btf() }

// KnownBTF returns the result of an earlier call of BTF or Options.BTF, else nil.
func (e *Env) KnownBTF() *btf.Spec { return e.btfHere.Load() }

// TypeCache returns this machine's types for loading programs, nil for a recording.
func (e *Env) TypeCache() *btf.Cache { return e.types }

func (e *Env) loadBTF() (*btf.Spec, error) {
	spec, err := e.readBTF()
	if err == nil {
		e.btfHere.Store(spec)
	}
	return spec, err
}

func (e *Env) readBTF() (*btf.Spec, error) {
	if e.live {
		spec, err := e.types.Kernel()
		if err == nil {
			return spec, nil
		}
		if e.btfDir == nil {
			return nil, e.noBTF(err)
		}
	}
	b, err := fs.ReadFile(e.root, "sys/kernel/btf/vmlinux")
	if err != nil && e.btfDir != nil {
		b, err = e.hubBTF()
	}
	if err != nil {
		return nil, e.noBTF(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	return spec, nil
}

func (e *Env) noBTF(err error) error {
	hint := "the kernel was built without CONFIG_DEBUG_INFO_BTF; give a BTF tree in BTFHub's layout (Options.BTFDir)"
	if errors.Is(err, fs.ErrPermission) {
		hint = "/sys/kernel/btf/vmlinux may not be read"
	}
	return &feature.UnsupportedError{Feature: "btf", Since: "5.4", Hint: hint, Err: err}
}

// ModuleBTF returns the types of a kernel module, which refer to the kernel's.
func (e *Env) ModuleBTF(name string) (*btf.Spec, error) {
	return e.modules.do(name, func() (*btf.Spec, error) {
		base, err := e.BTF()
		if err != nil {
			return nil, err
		}
		if e.live {
			spec, err := e.types.Module(name)
			if err != nil {
				return nil, fmt.Errorf("BTF of module %s: %w", name, err)
			}
			return spec, nil
		}
		b, err := fs.ReadFile(e.root, "sys/kernel/btf/"+name)
		if err != nil {
			return nil, fmt.Errorf("BTF of module %s: %w", name, err)
		}
		spec, err := btf.LoadSplitSpecFromReader(bytes.NewReader(b), base)
		if err != nil {
			return nil, fmt.Errorf("BTF of module %s: %w", name, err)
		}
		return spec, nil
	})
}

// hubBTF returns the kernel's BTF from a tree in BTFHub's layout:
// ID/VERSION/ARCH/RELEASE.btf or .btf.tar.xz, where ID and VERSION are those of
// os-release and ARCH is uname's.
func (e *Env) hubBTF() ([]byte, error) {
	if e.release == "" {
		return nil, notexist.Errorf("BTF tree: the kernel's release is not known")
	}
	arch := e.hubArch()
	id, version := e.osRelease()
	patterns := []string{
		fmt.Sprintf("%s/%s/%s/%s.btf", id, version, arch, e.release),
		fmt.Sprintf("*/*/%s/%s.btf", arch, e.release),
	}
	for _, p := range patterns {
		for _, suffix := range []string{"", ".tar.xz"} {
			names, err := fs.Glob(e.btfDir, p+suffix)
			if err != nil || len(names) == 0 {
				continue
			}
			return readHubFile(e.btfDir, names[0])
		}
	}
	return nil, notexist.Errorf("BTF tree: no %s/%s/%s/%s.btf[.tar.xz]", id, version, arch, e.release)
}

// hubArch returns the architecture as BTFHub spells it.
func (e *Env) hubArch() string {
	if e.arch == "amd64" {
		return "x86_64"
	}
	return e.arch
}

// osRelease returns ID and VERSION_ID of os-release(5).
func (e *Env) osRelease() (id, version string) {
	b, err := fs.ReadFile(e.root, "etc/os-release")
	if err != nil {
		b, _ = fs.ReadFile(e.root, "usr/lib/os-release")
	}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		v = strings.Trim(v, `"'`)
		switch k {
		case "ID":
			id = v
		case "VERSION_ID":
			version = v
		}
	}
	return id, version
}

func readHubFile(dir fs.FS, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(name, ".tar.xz") {
		return readBounded(f, name)
	}
	packed, err := readBounded(f, name)
	if err != nil {
		return nil, err
	}
	b, err := decompress.All(decompress.XZ, packed, maxBTF)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	spec, ok := fileInTar(b, ".btf")
	if !ok {
		return nil, fmt.Errorf("%s: no .btf inside", name)
	}
	return spec, nil
}

// fileInTar returns the first file of a tar archive whose name ends in suffix. The archive
// has blocks of 512 bytes; a file's first block has its name at 0, its size in octal at 124
// and its type at 156 (POSIX.1-1988, ustar). Package archive/tar would be linked into every
// tracer for it.
func fileInTar(b []byte, suffix string) ([]byte, bool) {
	const block = 512
	for len(b) >= block {
		head := b[:block]
		b = b[block:]
		name, _, _ := strings.Cut(string(head[:100]), "\x00")
		size, err := strconv.ParseUint(strings.Trim(string(head[124:136]), " \x00"), 8, 63)
		if err != nil || size > uint64(len(b)) {
			return nil, false
		}
		if regular := head[156] == '0' || head[156] == 0; regular && strings.HasSuffix(name, suffix) {
			return b[:size], true
		}
		b = b[min((size+block-1)/block*block, uint64(len(b))):]
	}
	return nil, false
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxBTF+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxBTF {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxBTF)
	}
	return b, nil
}
