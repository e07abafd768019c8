package symbol

import (
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/symbol/internal/ksyms"
)

// The cache file: a line with the format and its version, a line with the key, a line with the
// checksum, then the lengths of the parts, little-endian like all numbers, and the parts:
// addresses (8 bytes each), types (1), skip list (4), module runs (4+2), arena, and the
// modules' names, separated by line ends.
const cacheFormat = "borescope-kallsyms 1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCache is the error for a cache file that is another boot's, or malformed.
var errCache = errors.New("kernel symbol cache is not usable")

// cacheKey returns what a table depends on: the boot, for the addresses, and the set of
// modules.
func (k *Kernel) cacheKey() (string, error) {
	root := procfs.Root(k.opts.Root)
	boot, err := fs.ReadFile(root, "proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("kernel symbol cache: %w", err)
	}
	mods, err := fs.ReadFile(root, "proc/modules")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // absent without CONFIG_MODULES
		return "", fmt.Errorf("kernel symbol cache: %w", err)
	}
	h := fnv.New64a()
	for line := range strings.Lines(string(mods)) {
		// Name and address; the use count in between changes all the time.
		if f := strings.Fields(line); len(f) >= 6 {
			fmt.Fprintln(h, f[0], f[1], f[5])
		}
	}
	return fmt.Sprintf("%s %016x %v\n", strings.TrimSpace(string(boot)), h.Sum64(), k.opts.Data), nil
}

// passing reports whether a module's code is loaded and unloaded without a change of
// /proc/modules.
func passing(mod string) bool {
	return mod == "[bpf]" || strings.HasPrefix(mod, "[__builtin__")
}

// writeKernelCache writes a table, whole or not at all.
func writeKernelCache(path, key string, t *ksyms.Table) (err error) {
	body := ksyms.Encode(t, passing)
	f, err := os.CreateTemp(filepath.Dir(path), ".kallsyms-*") // mode 0600
	if err != nil {
		return fmt.Errorf("kernel symbol cache: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("kernel symbol cache: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = fmt.Fprintf(f, "%s%s%08x\n", cacheFormat, key, crc32.Checksum(body, castagnoli))
	if err == nil {
		_, err = f.Write(body)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// maxKernelCache is far above the size of any table.
const maxKernelCache = 256 << 20

// readKernelCache reads a table that was written under the same key by the same user or by
// root: another user's table could contain anything.
func readKernelCache(path, key string) (*ksyms.Table, error) {
	f, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxKernelCache || !ownFile(st) {
		return nil, errCache
	}
	const sumLen = 9 // 8 digits and a line end
	want := cacheFormat + key
	head := make([]byte, len(want)+sumLen)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:len(want)]) != want {
		return nil, errCache
	}
	body := &sumReader{r: f}
	t, err := ksyms.Decode(body, st.Size()-int64(len(head)))
	if err != nil || string(head[len(want):]) != fmt.Sprintf("%08x\n", body.sum) {
		return nil, errCache
	}
	return t, nil
}

// sumReader computes the checksum of the data that is read.
type sumReader struct {
	r   io.Reader
	sum uint32
}

// Read implements io.Reader.
func (s *sumReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.sum = crc32.Update(s.sum, castagnoli, b[:n])
	return n, err
}
