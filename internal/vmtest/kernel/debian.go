package kernel

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DebianImage returns the path of an ext4 image with a Debian system that contains the given
// packages and all their dependencies, for guests that run other tools. The packages are
// unpacked but not configured, which is enough for programs, and needs no root. The image is
// kept in the cache.
func DebianImage(suite, arch string, packages ...string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	packages = append([]string{"base-files", "bash", "coreutils"}, packages...)
	slices.Sort(packages)
	key := sha256.Sum256([]byte(strings.Join(packages, " ")))
	name := filepath.Join(cache, "debian", fmt.Sprintf("%s-%s-%x.ext4", suite, arch, key[:6]))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	unlock, err := Lock(name + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if err := buildImage(name, suite, arch, packages); err != nil {
		return "", fmt.Errorf("a Debian %s system with %s: %w", suite, strings.Join(packages, ", "), err)
	}
	return name, nil
}

func buildImage(name, suite, arch string, packages []string) error {
	a, err := openApt(suite, arch)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(name), "build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// With an empty status file no package counts as installed, so all dependencies are
	// downloaded.
	status, debs, root := filepath.Join(work, "status"), filepath.Join(work, "cache"),
		filepath.Join(work, "root")
	err = errors.Join(os.WriteFile(status, nil, 0o644),
		os.MkdirAll(filepath.Join(debs, "archives/partial"), 0o755), makeMerged(root))
	if err != nil {
		return err
	}
	args := append([]string{
		"-o", "Dir::State::status=" + status, "-o", "Dir::Cache=" + debs, "-o", "Debug::NoLocking=true",
		"install", "-y", "--download-only", "--no-install-recommends",
	}, packages...)
	if _, err := a.run("apt-get", args...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "archives/*.deb"))
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("nothing was downloaded"), err)
	}
	for _, deb := range files {
		if err := unpackMerged(deb, root); err != nil {
			return err
		}
	}
	return makeExt4(name, root)
}

// merged lists the directories that a Debian system has under /usr, with links to them.
var merged = []string{"bin", "sbin", "lib", "lib64"}

func makeMerged(root string) error {
	for _, d := range merged {
		err := errors.Join(os.MkdirAll(filepath.Join(root, "usr", d), 0o755),
			os.Symlink("usr/"+d, filepath.Join(root, d)))
		if err != nil {
			return err
		}
	}
	return nil
}

// unpackMerged unpacks with tar, which like dpkg follows the links that make /bin another name
// for /usr/bin. dpkg-deb -x would replace them.
func unpackMerged(deb, root string) error {
	_, err := run("sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"`,
		"sh", deb, root)
	return err
}

// makeExt4 makes an image of a directory, with spare room.
func makeExt4(name, root string) error {
	var size int64
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	tmp := name + ".new"
	megabytes := fmt.Sprintf("%dM", size>>20*3/2+256)
	if _, err := run("mke2fs", "-q", "-F", "-t", "ext4", "-d", root, tmp, megabytes); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

// DebianFile returns the path of a file of a Debian package, such as usr/bin/prometheus. The package is
// unpacked in the cache, without its dependencies: it is for programs that need the C library at most.
func DebianFile(suite, arch, pkg, file string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "debian", suite+"-"+arch+"-"+pkg)
	path := filepath.Join(dir, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	a, err := openApt(suite, arch)
	if err != nil {
		return "", fmt.Errorf("package %s of Debian %s: %w", pkg, suite, err)
	}
	tmp := dir + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(dir)); err != nil {
		return "", err
	}
	if err := a.extract(pkg, tmp); err != nil {
		return "", fmt.Errorf("package %s of Debian %s: %w", pkg, suite, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	return path, err
}
