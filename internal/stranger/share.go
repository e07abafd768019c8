// Package stranger bounds the work that files of other users cause for a program that inspects
// all processes of a machine: the author of a file decides how much work it takes.
package stranger

import "time"

// Share bounds the work of reading the files that processes map, in bytes: a base, and 10 MiB
// more for each second since the first, which is a tenth of a CPU's time. Another file of a
// stranger is only read while the bytes read of theirs are within 2 MiB, and 256 KiB more for
// each second: twenty large files take as long as one. The zero value is ready for use. Only
// one goroutine may use it at a time.
type Share struct {
	taken  int64
	owners map[Owner]int64 // bytes taken for strangers
	since  time.Time       // when the first bytes were taken
	self   *self           // read at the first use
}

const (
	shareSecond    = 10 << 20
	strangerBase   = 2 << 20
	strangerSecond = 256 << 10
)

// Take takes n bytes for a file of an owner, or returns false and takes none if that exceeds
// what is allowed: base plus what the time until now adds. A negative n counts as 0.
func (s *Share) Take(o Owner, n, base int64, now time.Time) bool {
	n = max(n, 0)
	if s.since.IsZero() {
		s.since = now
	}
	seconds := now.Sub(s.since).Seconds()
	if s.taken+n > base+int64(seconds*shareSecond) {
		return false
	}
	if o != (Owner{}) {
		if s.owners[o] > strangerBase+int64(seconds*strangerSecond) {
			return false
		}
		if s.owners == nil {
			s.owners = make(map[Owner]int64)
		}
		s.owners[o] += n
	}
	s.taken += n
	return true
}
