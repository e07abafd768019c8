package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/kernel"
)

// account is what usage is counted by: a user under a rule.
type account struct {
	rule int
	uid  uint32
}

type usage struct {
	attachments int
	bytes       int64
}

// kept is what a client may hold by descriptors after its attachment has ended. It counts
// as long as the kernel has it.
type kept struct {
	account account
	bytes   int64 // of maps
	maps    []ebpf.MapID
	progs   []ebpf.ProgramID // of links that were handed over
}

// leastBytes is the least that an attachment's maps count as.
const leastBytes = 4096

// goneWithin is how long a request waits for resources that were just released: the kernel
// frees programs, and the maps that they use, a little later.
const goneWithin = 2 * time.Second

func (s *Server) used(a account) usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usageOf(a)
}

// usageOf returns what a user has attached, and what it keeps. s.mu is held.
func (s *Server) usageOf(a account) usage {
	u := s.usage[a]
	s.kept = slices.DeleteFunc(s.kept, func(k kept) bool {
		if k.account != a {
			return false
		}
		link := slices.ContainsFunc(k.progs, programExists)
		if !link && !slices.ContainsFunc(k.maps, mapExists) {
			return true
		}
		u.bytes += k.bytes
		if link {
			u.attachments++
		}
		return false
	})
	return u
}

// mapExists and programExists report true also if it can't be found out.
func mapExists(id ebpf.MapID) bool {
	m, err := ebpf.NewMapFromID(id)
	if err == nil {
		m.Close()
	}
	return !errors.Is(err, errNotExist)
}

func programExists(id ebpf.ProgramID) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err == nil {
		p.Close()
	}
	return !errors.Is(err, errNotExist)
}

// book counts an attachment against its user's limits.
func (s *Server) book(rule *Rule, a *attachment) error {
	a.bytes = max(a.bytes, leastBytes)
	for end := time.Now().Add(goneWithin); ; time.Sleep(10 * time.Millisecond) {
		keeps, err := s.tryBook(rule, a)
		if err == nil || !keeps || time.Now().After(end) {
			return err
		}
	}
}

// tryBook also reports whether resources that are being released may still make room.
func (s *Server) tryBook(rule *Rule, a *attachment) (keeps bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.usageOf(a.account)
	keeps = u != s.usage[a.account]
	if u.attachments >= rule.maxAttachments() {
		return keeps, refuse("user %d has %d attachments already, %d are allowed", a.account.uid,
			u.attachments, rule.maxAttachments())
	}
	if left := rule.maxMapBytes() - u.bytes; a.bytes > left {
		return keeps, refuse("the maps take %d bytes, %d are left of the %d allowed", a.bytes, left,
			rule.maxMapBytes())
	}
	u = s.usage[a.account]
	s.usage[a.account] = usage{u.attachments + 1, u.bytes + a.bytes}
	a.booked = true
	return false, nil
}

// release detaches, and stops counting what is gone then. It may be called again, also by
// another goroutine, which waits and gets no error.
func (s *Server) release(a *attachment) (err error) {
	a.end.Do(func() { err = s.detach(a) })
	return err
}

func (s *Server) detach(a *attachment) error {
	var err error
	if a.share != nil {
		err = s.commons.leave(a.common, a.share)
	}
	err = errors.Join(err, a.gate.close())
	if !a.booked {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.usage[a.account]
	if u = (usage{u.attachments - 1, u.bytes - a.bytes}); u == (usage{}) {
		delete(s.usage, a.account)
	} else {
		s.usage[a.account] = u
	}
	if len(a.maps)+len(a.progs) > 0 {
		s.kept = append(s.kept, kept{a.account, a.bytes, a.maps, a.progs})
	}
	return err
}

// mapBytes returns the memory of a collection's maps when they are full.
func mapBytes(spec *ebpf.CollectionSpec) (int64, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for name, m := range spec.Maps {
		switch m.Type {
		case ebpf.RingBuf, ebpf.Array, ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.Hash,
			ebpf.LRUHash, ebpf.StackTrace, ebpf.PerfEventArray:
			total += kernel.MapBytes(m, int64(cpus))
		default:
			return 0, fmt.Errorf("map %s: cannot compute the size of a %s map: %w", name, m.Type,
				errors.ErrUnsupported)
		}
	}
	return total, nil
}

// isOwn reports whether a map is one that a broker does not give away.
func isOwn(name string) bool { return strings.HasPrefix(name, ".") }
