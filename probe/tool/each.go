package tool

import (
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
)

// EachCounts calls show at the end of every interval (Session.Every) with the counts of that
// interval, largest first, as the function of Counts returns them.
func EachCounts[K comparable](
	s *Session, c *action.Counter[K], show func(counts []mapx.Entry[K, uint64]) error,
) error {
	read, err := Counts(s, c)
	return every(s, read, err, show)
}

// EachSums calls show at the end of every interval with the sums of that interval, as the
// function of Sums returns them.
func EachSums[K comparable](s *Session, n *action.Aggregate[K],
	show func(sums map[K]int64) error,
) error {
	read, err := Sums(s, n)
	return every(s, read, err, show)
}

// every calls show with the result of read at the end of every interval. If err is not nil,
// it only returns err.
func every[T any](s *Session, read func() (T, error), err error, show func(T) error) error {
	if err != nil {
		return err
	}
	return s.Every(func() error {
		now, err := read()
		if err != nil {
			return err
		}
		return show(now)
	})
}
