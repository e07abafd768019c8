// Package stranger bounds the work that other people's files make for whoever looks
// at the processes of a whole machine: who wrote a file decides what it asks for.
package stranger

import "time"

// Share is the work of reading the files that processes map, in bytes: so many, and
// 10 MiB more for each second since the first, which is a tenth of a processor's
// time. Of each stranger a second file is read only while what was read of theirs is
// within 2 MiB, and 256 KiB more for each second: twenty large files take as long as
// one. The zero value is ready. It is for one goroutine at a time.
type Share struct {
	taken  int64
	owners map[Owner]int64 // what strangers have taken
	since  time.Time       // the first was taken
	self   *self           // read when it is first needed
}

const (
	shareSecond    = 10 << 20
	strangerBase   = 2 << 20
	strangerSecond = 256 << 10
)

// Take takes n bytes, which is no less than 0, for a file of an owner, or none if that
// is more than there are: base and what the time until now adds.
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
