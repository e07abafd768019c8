package elffile

import "time"

// Share bounds the work of reading files that anybody may have written: so many
// bytes, and 10 MiB more for each second since the first, which is a tenth of a
// processor's time. The zero value is ready. It is for one goroutine at a time.
type Share struct {
	taken int64
	since time.Time // the first was taken
}

const shareSecond = 10 << 20

// Take takes n bytes, or none if that is more than there are: base and what the
// time until now adds.
func (s *Share) Take(n, base int64, now time.Time) bool {
	if s.since.IsZero() {
		s.since = now
	}
	if s.taken+n > base+int64(now.Sub(s.since).Seconds()*shareSecond) {
		return false
	}
	s.taken += n
	return true
}
