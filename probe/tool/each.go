package tool

import (
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
)

// EachCounts calls show with what was counted in every interval (Session.Every),
// largest first, as Counts gives it.
func EachCounts[K comparable](
	s *Session, c *action.Counter[K], show func(counts []mapx.Entry[K, uint64]) error,
) error {
	read, err := Counts(s, c)
	return every(s, read, err, show)
}

// EachSums calls show with what was added up in every interval, as Sums gives it.
func EachSums[K comparable](s *Session, n *action.Aggregate[K],
	show func(sums map[K]int64) error,
) error {
	read, err := Sums(s, n)
	return every(s, read, err, show)
}

// every calls show with what read reads, unless that could not be opened.
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
