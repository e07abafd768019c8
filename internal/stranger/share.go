// Package stranger bounds the work that files of other users cause for a program that inspects
// all processes of a machine: the author of a file decides how much work it takes.
package stranger

import "time"

// Share bounds the work of reading the files that processes map. All of it together has a
// bound, of which no process gets more than its part of what the others leave (Pool): an eighth
// at most, or half if the user has chosen the processes, and all processes of one user who is
// not trusted get a quarter. Another file of a stranger is only read while what was read of
// theirs is within a bound too: twenty large files take as long as one. What was taken comes
// back at a slow rate, so that a program that runs for months goes on. The zero value is ready
// for use. Only one goroutine may use it at a time.
type Share struct {
	// Chosen is set if the user has chosen the processes.
	Chosen bool

	processes, users Pool[int]
	owners           map[Owner]int64 // taken for strangers
	last             time.Time       // when what was taken came back last
	self             *self           // read at the first use
}

// Limit is how much of some work there may be: at once, and more for each second since.
type Limit struct{ Base, Second, Stranger, StrangerSecond int64 }

// Bytes is the limit of reading: 10 MiB a second take a tenth of a processor's time.
func Bytes(base int64) Limit { return Limit{base, 10 << 20, 2 << 20, 256 << 10} }

// Party is for whom something is read: a process, of a user. PID is 0 for nobody in particular,
// and UID not positive for a user who is trusted or not known.
type Party struct{ PID, UID int }

// Take takes n for a file of an owner that a party maps, or returns false and takes none if
// that exceeds what is allowed. A negative n counts as 0. now is zero where no time passes, as
// for a recorded machine.
func (s *Share) Take(o Owner, p Party, n int64, l Limit, now time.Time) bool {
	n = max(n, 0)
	s.start(l, now)
	if o != (Owner{}) && s.owners[o] > l.Stranger {
		return false
	}
	if p.UID > 0 && !s.users.Has(p.UID, n) {
		return false
	}
	if p.PID == 0 {
		if s.processes.taken+n > l.Base {
			return false
		}
	} else if !s.processes.Has(p.PID, n) {
		return false
	}
	s.Add(o, p, n)
	return true
}

// Add takes n in any case, after Take: how much it is was known only afterwards.
func (s *Share) Add(o Owner, p Party, n int64) {
	if n <= 0 {
		return
	}
	if o != (Owner{}) {
		if s.owners == nil {
			s.owners = make(map[Owner]int64)
		}
		s.owners[o] += n
	}
	if p.UID > 0 {
		s.users.Add(p.UID, n)
	}
	s.processes.Add(p.PID, n)
}

// start sets the limits, and gives back what the time since the last call allows.
func (s *Share) start(l Limit, now time.Time) {
	const usersParts = 4
	s.processes.Total, s.processes.Parts = l.Base, 8
	if s.Chosen {
		s.processes.Parts = 2
	}
	s.users.Total, s.users.Parts = l.Base, usersParts
	if s.last.IsZero() || now.Before(s.last) {
		s.last = now
		return
	}
	const often = time.Second / 10 // for each process there is a little work
	since := now.Sub(s.last)
	if since < often {
		return
	}
	s.last = now
	seconds := min(since.Seconds(), 1e6)
	s.processes.Ebb(int64(seconds * float64(l.Second)))
	s.users.Ebb(int64(seconds * float64(l.Second)))
	for o, taken := range s.owners {
		if taken -= int64(seconds * float64(l.StrangerSecond)); taken > 0 {
			s.owners[o] = taken
		} else {
			delete(s.owners, o)
		}
	}
}
