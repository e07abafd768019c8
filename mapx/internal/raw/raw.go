// Package raw reads BPF maps as bytes, with the fewest system calls that the kernel allows for
// their type.
package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/mapx/internal/layout"
)

const (
	// batchBytes is the size of the buffers for one batch: large enough that the cost of the
	// system call is negligible, small enough to stay in the cache.
	batchBytes = 256 << 10
	// maxBatchBytes bounds the growth of the buffers for maps with crowded buckets.
	maxBatchBytes = 64 << 20
)

// ErrNoMap is the error for a nil map: a collection returns nil for a name that it does not
// have.
var ErrNoMap = errors.New("no map: it is nil (has the collection one of that name?)")

// ErrUnsettled is the error if a map without batches changed faster than it could be walked.
// Entries that were in the map all the time might have been missed.
var ErrUnsettled = errors.New("map changes faster than it can be walked")

// Map reads a map as bytes, with batches if the kernel has them for the map's type. It is safe
// for concurrent use.
type Map struct {
	M          *ebpf.Map
	Name       string
	typ        ebpf.MapType
	keySize    int
	ValueSize  int // in system calls: all CPUs' if per-CPU
	maxEntries int

	mu      sync.Mutex
	Spare   *rawBuffers
	noBatch map[kernel.MapCommand]bool // commands that this kernel lacks for this map
}

// rawBuffers are the buffers of one reader.
type rawBuffers struct {
	keys, values []byte
	Count        int // entries that fit
	cursor, next []byte
}

// New returns a reader of m. valueSize is the size of a value in system calls.
func New(m *ebpf.Map, valueSize int) *Map {
	r := &Map{
		M: m, Name: m.String(), typ: m.Type(), keySize: int(m.KeySize()),
		ValueSize: valueSize, maxEntries: int(m.MaxEntries()), noBatch: map[kernel.MapCommand]bool{},
	}
	return r
}

// Take returns buffers, which the caller returns with Put.
func (r *Map) Take() *rawBuffers {
	r.mu.Lock()
	b := r.Spare
	r.Spare = nil
	r.mu.Unlock()
	if b == nil {
		b = new(rawBuffers)
		cursor := max(r.keySize, 8) // a u32 for hash maps, a key for others
		b.cursor, b.next = make([]byte, cursor), make([]byte, cursor)
		b.Resize(r, max(1, min(r.maxEntries, batchBytes/(r.keySize+r.ValueSize))))
	}
	return b
}

// Put keeps buffers for the next Take.
func (r *Map) Put(b *rawBuffers) {
	r.mu.Lock()
	r.Spare = b
	r.mu.Unlock()
}

// Resize allocates buffers for count entries.
func (b *rawBuffers) Resize(r *Map, count int) {
	b.Count = count
	b.keys, b.values = layout.AlignedBytes(count*r.keySize), layout.AlignedBytes(count*r.ValueSize)
}

func (r *Map) lacks(cmd kernel.MapCommand) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noBatch[cmd]
}

// SetLacks records that the kernel lacks a command for this map.
func (r *Map) SetLacks(cmd kernel.MapCommand) {
	r.mu.Lock()
	r.noBatch[cmd] = true
	r.mu.Unlock()
}

// IsArray reports whether the map's keys are 0…n-1 and can't be deleted.
func (r *Map) IsArray() bool {
	return r.typ == ebpf.Array || r.typ == ebpf.PerCPUArray || r.typ == ebpf.ArrayOfMaps
}

// isHash reports whether batches go bucket by bucket under the bucket's lock
// (__htab_map_lookup_and_delete_batch, kernel/bpf/hashtab.c): they return no entry twice and
// miss none that is in the map all the time.
func (r *Map) isHash() bool {
	switch r.typ {
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.HashOfMaps:
		return true
	}
	return false
}

// Each calls fn with batches of n entries, keys and values packed, until all entries were read
// or fn returns false. With del it deletes entries as it reads them. The slices are valid
// during the call.
func (r *Map) Each(del bool, fn func(keys, values []byte, n int) bool) error {
	b := r.Take()
	defer r.Put(b)
	cmd := kernel.MapLookupBatch
	if del {
		cmd = kernel.MapLookupDelBatch
	}
	// Generic batches (LPM tries) restart when a key is deleted under them.
	if (r.isHash() || r.IsArray()) && !r.lacks(cmd) {
		err := r.eachBatch(b, cmd, fn)
		if !errors.Is(err, errNoBatch) {
			return err
		}
		r.SetLacks(cmd)
	}
	switch {
	case r.IsArray():
		return r.eachIndex(b, fn)
	case del:
		return r.takeEach(b, fn)
	}
	return r.walk(b, func(key []byte) (bool, error) {
		found, err := r.Lookup(key, b.values[:r.ValueSize])
		if !found || err != nil {
			return true, err
		}
		return fn(key, b.values[:r.ValueSize], 1), nil
	})
}

var errNoBatch = errors.New("no batches")

func (r *Map) eachBatch(b *rawBuffers, cmd kernel.MapCommand,
	fn func(keys, values []byte, n int) bool,
) error {
	var in []byte
	for first := true; ; first = false {
		n, err := kernel.MapBatch(cmd, r.M.FD(), in, b.next, b.keys, b.values, b.Count)
		switch {
		case err == syscall.ENOSPC && r.grow(b):
			continue // a bucket has more entries than the buffers hold: same cursor again
		case first && (err == kernel.ENOTSUPP || err == syscall.EINVAL):
			return errNoBatch
		case err != nil && err != syscall.ENOENT:
			return r.Failed("read", err)
		}
		if n > 0 && !fn(b.keys[:n*r.keySize], b.values[:n*r.ValueSize], n) {
			return nil
		}
		if err == syscall.ENOENT {
			return nil // the end
		}
		b.cursor, b.next = b.next, b.cursor
		in = b.cursor
	}
}

// grow doubles the buffers. It returns false if that cannot help.
func (r *Map) grow(b *rawBuffers) bool {
	count := 2 * b.Count
	if b.Count >= r.maxEntries || count*(r.keySize+r.ValueSize) > maxBatchBytes {
		return false
	}
	b.Resize(r, count)
	return true
}

// eachIndex reads an array element by element.
func (r *Map) eachIndex(b *rawBuffers, fn func(keys, values []byte, n int) bool) error {
	for start := 0; start < r.maxEntries; start += b.Count {
		n := 0
		for ; n < b.Count && start+n < r.maxEntries; n++ {
			key := b.keys[n*4:][:4]
			binary.NativeEndian.PutUint32(key, uint32(start+n))
			if _, err := r.Lookup(key, b.values[n*r.ValueSize:][:r.ValueSize]); err != nil {
				return err
			}
		}
		if !fn(b.keys[:n*r.keySize], b.values[:n*r.ValueSize], n) {
			return nil
		}
	}
	return nil
}

// walk calls fn once with every key. If the current key is deleted, the kernel starts over;
// keys that fn has seen are then skipped.
func (r *Map) walk(b *rawBuffers, fn func(key []byte) (bool, error)) error {
	seen := make(map[string]struct{})
	key, next := []byte(nil), b.cursor[:r.keySize]
	for steps := 0; ; steps++ {
		if steps > 8*r.maxEntries+1024 {
			return r.Failed("walk", ErrUnsettled)
		}
		err := kernel.MapElem(kernel.MapNextKey, r.M.FD(), key, next, 0)
		if err == syscall.ENOENT {
			return nil
		}
		if err == kernel.ENOTSUPP {
			return &feature.UnsupportedError{
				Feature: "listing of " + r.Name,
				Hint:    "the kernel does not list this kind of map: look its keys up, or iterate in a BPF program",
				Err:     err,
			}
		}
		if err != nil {
			return r.Failed("next key", err)
		}
		if _, ok := seen[string(next)]; !ok {
			seen[string(next)] = struct{}{}
			if more, err := fn(next); !more || err != nil {
				return err
			}
		}
		key = append(b.next[:0], next...)
	}
}

// takeEach reads and deletes entries without batches.
func (r *Map) takeEach(b *rawBuffers, fn func(keys, values []byte, n int) bool) error {
	var keys []byte
	err := r.walk(b, func(key []byte) (bool, error) {
		keys = append(keys, key...)
		return true, nil
	})
	if err != nil {
		return err
	}
	value := b.values[:r.ValueSize]
	for ; len(keys) > 0; keys = keys[r.keySize:] {
		key := append(b.cursor[:0], keys[:r.keySize]...)
		err := kernel.MapElem(kernel.MapLookupAndDelete, r.M.FD(), key, value, 0)
		if err != nil && err != syscall.ENOENT { // hash maps have the command since Linux 5.14
			var found bool
			if found, err = r.Lookup(key, value); err != nil {
				return err
			}
			if !found {
				continue
			}
			err = kernel.MapElem(kernel.MapDelete, r.M.FD(), key, nil, 0)
		}
		switch {
		case err == syscall.ENOENT:
			continue
		case err != nil:
			return r.Failed("delete", err)
		case !fn(key, value, 1):
			return nil
		}
	}
	return nil
}

// Lookup reads one value. It returns false if the map does not have the key.
func (r *Map) Lookup(key, value []byte) (bool, error) {
	err := kernel.MapElem(kernel.MapLookup, r.M.FD(), key, value, 0)
	if err == syscall.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, r.Failed("lookup", err)
	}
	return true, nil
}

// ZeroAll writes zero to every element of an array.
func (r *Map) ZeroAll() error {
	zero, key := layout.AlignedBytes(r.ValueSize), layout.AlignedBytes(4)
	for i := range r.maxEntries {
		binary.NativeEndian.PutUint32(key, uint32(i))
		if err := kernel.MapElem(kernel.MapUpdate, r.M.FD(), key, zero, 0); err != nil {
			return r.Failed("zero", err)
		}
	}
	return nil
}

// Failed returns err with the operation and the map's name.
func (r *Map) Failed(op string, err error) error {
	return fmt.Errorf("%s %s: %w", op, r.Name, Cause(r.M, err))
}

// Cause returns the error of an operation on a map: os.ErrClosed if its owner has closed it, which
// the kernel reports as a bad file descriptor.
func Cause(m *ebpf.Map, err error) error {
	if err != nil && m.FD() < 0 {
		return os.ErrClosed
	}
	return err
}

// CheckTypes compares key and value with the map's BTF, if it has BTF that this process may
// read (another process's needs CAP_SYS_ADMIN).
func CheckTypes(m *ebpf.Map, key, value *layout.Layout) error {
	types, err := layout.MapTypes(m)
	if err != nil {
		return err
	}
	for i, l := range []*layout.Layout{key, value} {
		if types[i] == nil || l == nil {
			continue
		}
		if err := layout.CheckBTF(l, types[i]); err != nil {
			return fmt.Errorf("map %v: %s: %w", m, []string{"key", "value"}[i], err)
		}
	}
	return nil
}

// CheckKind returns an error that names what to use instead of Map, or PerCPU, for a map of
// another kind.
func CheckKind(m *ebpf.Map, perCPU bool) error {
	if m == nil {
		return ErrNoMap
	}
	if m.FD() < 0 {
		return fmt.Errorf("map %v: %w", m, os.ErrClosed)
	}
	switch m.Type() {
	case ebpf.PerCPUHash, ebpf.PerCPUArray, ebpf.LRUCPUHash, ebpf.PerCPUCGroupStorage:
		if !perCPU {
			return fmt.Errorf("map %v has a value per CPU: use NewPerCPU", m)
		}
		return nil
	case ebpf.RingBuf:
		return fmt.Errorf("map %v is a stream: use OpenRing", m)
	case ebpf.PerfEventArray:
		return fmt.Errorf("map %v is a stream: use OpenPerfBuffer", m)
	case ebpf.Queue, ebpf.Stack:
		return fmt.Errorf("map %v has no keys", m)
	case ebpf.BloomFilter:
		return fmt.Errorf("map %v can only be asked whether a value was added", m)
	}
	if perCPU {
		return fmt.Errorf("map %v has one value per entry, not one per CPU: use New", m)
	}
	return nil
}

// Delete deletes a key. It returns nil if the map does not have it.
func (r *Map) Delete(key []byte) error {
	err := kernel.MapElem(kernel.MapDelete, r.M.FD(), key, nil, 0)
	if err != nil && err != syscall.ENOENT {
		return r.Failed("delete", err)
	}
	return nil
}

// Clear deletes all entries, or writes zero to all elements of an array.
func (r *Map) Clear() error {
	if r.IsArray() {
		return r.ZeroAll()
	}
	return r.Each(true, func([]byte, []byte, int) bool { return true })
}

// Zero writes zero to the values of all entries.
func (r *Map) Zero() error {
	if r.IsArray() {
		return r.ZeroAll()
	}
	var keys []byte
	err := r.Each(false, func(k, _ []byte, _ int) bool {
		keys = append(keys, k...)
		return true
	})
	if err != nil {
		return err
	}
	zero := layout.AlignedBytes(r.ValueSize)
	for ; len(keys) > 0; keys = keys[r.keySize:] {
		err := kernel.MapElem(kernel.MapUpdate, r.M.FD(), keys[:r.keySize], zero,
			uint64(ebpf.UpdateExist))
		if err != nil && err != syscall.ENOENT {
			return r.Failed("zero", err)
		}
	}
	return nil
}
