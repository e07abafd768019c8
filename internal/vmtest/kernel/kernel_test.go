package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestNaturalCompare(t *testing.T) {
	names := []string{
		"linux-image-6.12.94+deb13-cloud-amd64", "linux-image-6.12.107+deb13-cloud-amd64",
		"linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-50-cloud-amd64",
	}
	slices.SortFunc(names, func(a, b string) int { return naturalCompare(b, a) })
	want := []string{
		"linux-image-6.12.107+deb13-cloud-amd64", "linux-image-6.12.94+deb13-cloud-amd64",
		"linux-image-6.1.0-50-cloud-amd64", "linux-image-6.1.0-9-cloud-amd64",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestFind knows both layouts of Debian's packages.
func TestFind(t *testing.T) {
	for name, files := range map[string][]string{
		"old": {"boot/vmlinuz-6.1.0-9", "boot/config-6.1.0-9", "lib/modules/6.1.0-9/modules.builtin"},
		"new": {"usr/lib/modules/6.1.0-9/vmlinuz", "usr/lib/modules/6.1.0-9/config", "usr/lib/modules/6.1.0-9/modules.builtin"},
	} {
		root := t.TempDir()
		for _, f := range files {
			path := filepath.Join(root, f)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		k, err := find(root, "6.1", "amd64")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if k.Release != "6.1.0-9" || k.Image != filepath.Join(root, files[0]) || k.Config != filepath.Join(root, files[1]) {
			t.Errorf("%s: %+v", name, k)
		}
	}
	if _, err := find(t.TempDir(), "6.1", "amd64"); err == nil {
		t.Error("an empty package is accepted")
	}
}

// TestHalfAKernelIsFetchedAgain: Debian's 7.2 moved the configuration and
// modules.builtin to a package of their own. The kernel was kept without them,
// and no module could be loaded.
func TestHalfAKernelIsFetchedAgain(t *testing.T) {
	dir := t.TempDir()
	mods := filepath.Join(dir, "root/usr/lib/modules/7.2.1")
	k := &Kernel{Image: filepath.Join(mods, "vmlinuz"), Config: filepath.Join(mods, "config"), Modules: mods}
	if err := errors.Join(os.MkdirAll(mods, 0o755), os.WriteFile(k.Image, nil, 0o644), os.WriteFile(k.Config, nil, 0o644), writeMeta(dir, k)); err != nil {
		t.Fatal(err)
	}
	if _, err := readMeta(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without modules.builtin: %v", err)
	}
	if _, err := find(filepath.Join(dir, "root"), "7.2", "amd64"); err == nil {
		t.Error("packages without modules.builtin are taken")
	}
	if err := os.WriteFile(filepath.Join(mods, "modules.builtin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readMeta(dir); err != nil {
		t.Error(err)
	}
	for v, places := range sources {
		for _, s := range places {
			if s.parts[0] != "image" && !slices.Contains(s.parts, "base") {
				t.Errorf("%s of %s comes without its base: %q", v, s.suite, s.parts)
			}
		}
	}
}

func TestUnknownVersion(t *testing.T) {
	var gone *UnavailableError
	if _, err := Get("2.6", "amd64"); err == nil || errors.As(err, &gone) {
		t.Errorf("%v", err)
	}
}

// TestLoadModules uses the modules of a kernel that is in the cache.
func TestLoadModules(t *testing.T) {
	cache, err := CacheDir()
	testenv.Need(t, testenv.Got("a directory for caches", err, "are defined")) // of its variables, none
	dir := filepath.Join(cache, "kernels", "6.1-amd64")
	testenv.Need(t, testenv.File(filepath.Join(dir, "kernel.json")))
	k, err := readMeta(dir)
	if err != nil {
		t.Fatal(err)
	}
	ms, err := k.LoadModules("virtio-pci", "virtio_blk")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range ms {
		names = append(names, m.Name)
	}
	for _, order := range [][2]string{{"virtio_ring", "virtio_pci"}, {"virtio_ring", "virtio_blk"}} {
		first, second := slices.Index(names, order[0]), slices.Index(names, order[1])
		if first < 0 || second < first {
			t.Errorf("%s before %s in %v", order[0], order[1], names)
		}
	}
	for name, want := range map[string]bool{"virtio_blk": true, "no_such_module": false} {
		if has, err := k.HasModule(name); has != want || err != nil {
			t.Errorf("%s: %v, %v", name, has, err)
		}
	}
	if _, err := k.LoadModules("no_such_module"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
