package action

import (
	"fmt"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// Storage is a value that belongs to an object of the kernel and is freed with it: one for
// each thread (NewTaskStorage) or for each cgroup (NewCgroupStorage). Programs use the value
// of the current thread or of its cgroup. Threads without a value take no room, a value is
// found faster than in a hash, and no value is evicted. Removing a value (Delete, Take) frees its
// memory, which takes about a microsecond: where an event leaves a value for the next one, as the
// entry of each call does for its return, Set it to zero instead.
//
// It needs the kernel's own BTF. Kernels that lack storage give an *UnsupportedError. A Hash
// with the key c.TID() or c.Cgroup() does the same there, but its entries outlive their
// thread.
type Storage[V any] struct{ h *Hash[None, V] }

// NewTaskStorage returns storage by thread (Linux 5.12).
func NewTaskStorage[V any](name string) *Storage[V] {
	s := &Storage[V]{newHash[None, V](name, ir.MapTaskStorage, 0)}
	s.h.m.Pos = callerPos()
	return s
}

// NewCgroupStorage returns storage by cgroup of the cgroup2 hierarchy (Linux 6.2).
func NewCgroupStorage[V any](name string) *Storage[V] {
	s := &Storage[V]{newHash[None, V](name, ir.MapCgroupStorage, 0)}
	s.h.m.Pos = callerPos()
	return s
}

// Set stores a value. If the kernel has no memory for it, that is counted (Stats.Full).
func (s *Storage[V]) Set(c *Ctx, value any) { s.h.Set(c, nil, value) }

// Get reads the value; it is zero if there is none.
func (s *Storage[V]) Get(c *Ctx) Int { return s.h.Get(c, nil) }

// Has reports whether there is a value.
func (s *Storage[V]) Has(c *Ctx) Bool { return s.h.Has(c, nil) }

// Delete removes the value, if there is one.
func (s *Storage[V]) Delete(c *Ctx) { s.h.Delete(c, nil) }

// Add adds to the value atomically. A missing value counts as 0.
func (s *Storage[V]) Add(c *Ctx, delta any) { s.h.Add(c, nil, delta) }

// Find runs found with the value if there is one, and the functions in missing otherwise.
func (s *Storage[V]) Find(c *Ctx, found func(v Int), missing ...func()) {
	s.h.Find(c, nil, found, missing...)
}

// Take is Find that also removes the value.
func (s *Storage[V]) Take(c *Ctx, found func(v Int), missing ...func()) {
	s.h.Take(c, nil, found, missing...)
}

// OfThread returns the value of a thread; ok reports whether it has one. A thread other than
// the first of its process needs Linux 6.9.
func (s *Storage[V]) OfThread(h bpf.Reader, tid int) (v V, ok bool, err error) {
	fd, closeFD, err := kernel.OpenThread(tid)
	if err != nil {
		return v, false, fmt.Errorf("storage %s: thread %d: %w", s.h.m.Name, tid, err)
	}
	defer closeFD()
	return bpf.LookupStorage[V](h, s.h.m, fd)
}

// OfCgroup returns the value of a cgroup, by its path in the file system; ok reports whether
// it has one.
func (s *Storage[V]) OfCgroup(h bpf.Reader, path string) (v V, ok bool, err error) {
	fd, closeFD, err := kernel.OpenCgroup(path)
	if err != nil {
		return v, false, fmt.Errorf("storage %s: %w", s.h.m.Name, err)
	}
	defer closeFD()
	return bpf.LookupStorage[V](h, s.h.m, fd)
}
