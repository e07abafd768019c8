package symbol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/symbol/internal/index"
)

// The cache file: a line with the format and its version, a line with the key,
// a line with the sum and the lengths of what follows, all little-endian:
// addresses (8 bytes each), types (1), skip list (4), module runs (4+2), arena,
// and the modules' names, each with a line end.
const cacheFormat = "borescope-kallsyms 1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCache says that a cache file is another boot's, or broken.
var errCache = errors.New("kernel symbol cache is not usable")

// cacheKey names what a table depends on: the boot, for the addresses, and the
// set of modules.
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

// passing reports whether the code of a module comes and goes without a trace in
// /proc/modules.
func passing(mod string) bool {
	return mod == "[bpf]" || strings.HasPrefix(mod, "[__builtin__")
}

// writeKernelCache writes a table, whole or not at all.
func writeKernelCache(path, key string, t *kernelTable) (err error) {
	body := encodeKernelTable(t)
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

func encodeKernelTable(t *kernelTable) []byte {
	le := binary.LittleEndian
	var values, typ, skip, runs, arena []byte
	last, n, off := -1, 0, 0
	for i := range t.typ {
		var name []byte
		name, off = nameAt(t.arena, off)
		mod := t.module(i)
		if passing(mod) {
			continue
		}
		if n%nameSkip == 0 {
			skip = le.AppendUint32(skip, uint32(len(arena)))
		}
		if m := slices.Index(t.mods, mod); m != last {
			runs = le.AppendUint16(le.AppendUint32(runs, uint32(n)), uint16(m))
			last = m
		}
		values, typ, arena = le.AppendUint64(values, t.At(i)), append(typ, t.typ[i]), appendName(arena, name)
		n++
	}
	mods := []byte(strings.Join(t.mods, "\n"))
	var out []byte
	for _, part := range [][]byte{values, typ, skip, runs, arena, mods} {
		out = le.AppendUint32(out, uint32(len(part)))
	}
	for _, part := range [][]byte{values, typ, skip, runs, arena, mods} {
		out = append(out, part...)
	}
	return out
}

// maxKernelCache is far above the size of any table.
const maxKernelCache = 256 << 20

// readKernelCache reads a table that was written under the same key by the same
// user or by root: a table of somebody else's could say anything.
func readKernelCache(path, key string) (*kernelTable, error) {
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
	t, err := decodeKernelTable(body, st.Size()-int64(len(head)))
	if err == nil && string(head[len(want):]) != fmt.Sprintf("%08x\n", body.sum) {
		err = errCache
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// sumReader sums up what is read.
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

// decodeKernelTable reads what encodeKernelTable wrote, of that size, each part
// into memory of its own, where the larger ones stay. The sum guards against
// accidents; what is checked here guards against the rest.
func decodeKernelTable(r io.Reader, size int64) (*kernelTable, error) {
	le := binary.LittleEndian
	var parts [6][]byte // without the first
	var lens [4 * len(parts)]byte
	if _, err := io.ReadFull(r, lens[:]); err != nil {
		return nil, errCache
	}
	left := size - int64(len(lens))
	for i := range parts {
		left -= int64(le.Uint32(lens[4*i:]))
	}
	if left != 0 {
		return nil, errCache
	}
	values, err := readValues(r, le.Uint32(lens[:]))
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(parts); i++ {
		parts[i] = make([]byte, le.Uint32(lens[4*i:]))
		if _, err := io.ReadFull(r, parts[i]); err != nil {
			return nil, errCache
		}
	}
	n := len(parts[1])
	if len(values) != n || len(parts[2]) != 4*((n+nameSkip-1)/nameSkip) || len(parts[3])%6 != 0 {
		return nil, errCache
	}
	t := &kernelTable{typ: parts[1], arena: parts[4], skip: make([]uint32, 0, len(parts[2])/4)}
	t.mods = strings.Split(string(parts[5]), "\n")
	off := uint64(0)
	for i := range values {
		if i%nameSkip == 0 {
			t.skip = append(t.skip, le.Uint32(parts[2][4*(i/nameSkip):]))
		}
		if i%nameSkip == 0 && uint64(t.skip[i/nameSkip]) != off || i > 0 && values[i] < values[i-1] {
			return nil, errCache
		}
		if off = skipName(t.arena, off); off > uint64(len(t.arena)) {
			return nil, errCache
		}
	}
	for r := parts[3]; len(r) > 0; r = r[6:] {
		run := modRun{le.Uint32(r), le.Uint16(r[4:])}
		if int(run.mod) >= len(t.mods) || (len(t.modRuns) == 0) != (run.first == 0) {
			return nil, errCache
		}
		t.modRuns = append(t.modRuns, run)
	}
	if n > 0 && len(t.modRuns) == 0 {
		return nil, errCache
	}
	t.Addrs = index.NewAddrs(values)
	return t, nil
}

// readValues reads numbers of 8 bytes, size bytes in all.
func readValues(r io.Reader, size uint32) ([]uint64, error) {
	values := make([]uint64, 0, size/8)
	buf := make([]byte, 32<<10)
	for size > 0 {
		b := buf[:min(size, uint32(len(buf)))]
		if _, err := io.ReadFull(r, b); err != nil || len(b)%8 != 0 {
			return nil, errCache
		}
		size -= uint32(len(b))
		for ; len(b) > 0; b = b[8:] {
			values = append(values, binary.LittleEndian.Uint64(b))
		}
	}
	return values, nil
}

// skipName returns the offset after the name at off, beyond the arena if there
// is none; see appendName.
func skipName(arena []byte, off uint64) uint64 {
	size := uint64(0)
	for off < uint64(len(arena)) {
		n := uint64(arena[off])
		off++
		size += n
		if n < 255 {
			return off + size
		}
	}
	return uint64(len(arena)) + 1
}
