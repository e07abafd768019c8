package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel is an unpacked kernel package.
type Kernel struct {
	// Version is the requested version, "6.12".
	Version string
	// Arch is the architecture, in Go's spelling.
	Arch string
	// Release is the output of the guest's uname -r.
	Release string
	// Image is the path of the bootable image.
	Image string
	// Config is the path of the kernel's configuration, or empty.
	Config string
	// Modules is the path of the directory with modules.builtin, or empty.
	Modules string
}

// String returns "6.12 amd64".
func (k *Kernel) String() string { return k.Version + " " + k.Arch }

// UnavailableError is the error for a kernel that is not available, with the cause.
type UnavailableError struct {
	Version, Arch string
	Err           error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("kernel %s %s is unavailable: %v", e.Version, e.Arch, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// source is a place where a kernel version may be found: packages in a suite with names that
// match "linux-<part>-<version>…-cloud-<arch>". Newer packagings separate the image
// ("binary"), the modules, and the configuration with the lists of built-in modules ("base").
type source struct {
	suite string
	parts []string // the package with the image first
}

var sources = map[string][]source{
	"5.10": {{"bullseye", []string{"image"}}},
	"6.1":  {{"bookworm", []string{"image"}}},
	"6.12": {{"trixie", []string{"image"}}, {"bookworm-backports", []string{"image"}}},
	"6.18": {{"trixie-backports", []string{"image"}}},
	"7.2": {
		{"trixie-backports", []string{"binary", "modules", "base"}},
		{"sid", []string{"binary", "modules", "base"}},
	},
}

// Versions returns the kernel versions that Get supports.
func Versions() []string { return []string{"5.10", "6.1", "6.12", "6.18", "7.2"} }

// Of parses a place: "6.12" is a kernel on amd64, "arm64-6.12" one on arm64. ok is false if
// the version does not exist.
func Of(place string) (version, arch string, ok bool) {
	version, arch = place, "amd64"
	if v, found := strings.CutPrefix(place, "arm64-"); found {
		version, arch = v, "arm64"
	}
	return version, arch, slices.Contains(Versions(), version)
}

// CacheDir returns the directory for kernels, package lists and built images:
// $XDG_CACHE_HOME/borescope or ~/.cache/borescope.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "borescope"), nil
}

// Get returns a kernel from the cache, or downloads it. If several processes call it at once,
// one downloads and the others wait.
func Get(version, arch string) (*Kernel, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	places, ok := sources[version]
	if !ok {
		return nil, fmt.Errorf("kernel %s: not one of %s", version, strings.Join(Versions(), ", "))
	}
	dir := filepath.Join(cache, "kernels", version+"-"+arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := Lock(dir + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if k, err := readMeta(dir); err == nil {
		return k, nil
	}
	var errs []error
	for _, s := range places {
		k, err := download(s, version, arch, dir)
		if err == nil {
			return k, writeMeta(dir, k)
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.suite, err))
	}
	return nil, &UnavailableError{version, arch, errors.Join(errs...)}
}

func readMeta(dir string) (*Kernel, error) {
	b, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		return nil, err
	}
	k := new(Kernel)
	if err := json.Unmarshal(b, k); err != nil {
		return nil, err
	}
	if _, err := os.Stat(k.Image); err != nil {
		return nil, err
	}
	return k, k.whole()
}

// whole returns an error if the kernel's packages are incomplete: the cache may have been
// filled when there were fewer packages for a kernel.
func (k *Kernel) whole() error {
	if k.Config == "" {
		return errors.New("the packages hold no configuration")
	}
	_, err := os.Stat(filepath.Join(k.Modules, "modules.builtin"))
	return err
}

// writeMeta must be called last: a directory without its file is an unfinished download.
func writeMeta(dir string, k *Kernel) error {
	b, err := json.MarshalIndent(k, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kernel.json"), append(b, '\n'), 0o644)
}

// find sets the paths of an unpacked package.
func find(root, version, arch string) (*Kernel, error) {
	k := &Kernel{Version: version, Arch: arch}
	for _, pattern := range []string{
		"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz",
		"lib/modules/*/vmlinuz",
	} {
		if m, _ := filepath.Glob(filepath.Join(root, pattern)); len(m) > 0 {
			k.Image = m[0]
		}
	}
	if k.Image == "" {
		return nil, errors.New("the package holds no vmlinuz")
	}
	for _, pattern := range []string{"usr/lib/modules/*", "lib/modules/*"} {
		if m, _ := filepath.Glob(filepath.Join(root, pattern)); len(m) > 0 {
			k.Modules, k.Release = m[0], filepath.Base(m[0])
		}
	}
	for _, pattern := range []string{
		"boot/config-*", "usr/lib/modules/*/config",
		"lib/modules/*/config",
	} {
		if m, _ := filepath.Glob(filepath.Join(root, pattern)); len(m) > 0 {
			k.Config = m[0]
		}
	}
	if k.Release == "" {
		k.Release = strings.TrimPrefix(filepath.Base(k.Image), "vmlinuz-")
	}
	return k, k.whole()
}
