package tool

import (
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/action"
)

// EachCounts calls show at the end of every interval (Run.Every) with the counts of that
// interval, largest first, as the function of Counts returns them.
func EachCounts[K comparable](
	r *Run, c *action.Counter[K], show func(counts []mapx.Entry[K, uint64]) error,
) error {
	read, err := Counts(r, c)
	return every(r, read, err, show)
}

// EachSums calls show at the end of every interval with the sums of that interval, as the
// function of Sums returns them.
func EachSums[K comparable](r *Run, n *action.Aggregate[K],
	show func(sums map[K]int64) error,
) error {
	read, err := Sums(r, n)
	return every(r, read, err, show)
}

// every calls show with the result of read at the end of every interval. If err is not nil,
// it only returns err.
func every[T any](r *Run, read func() (T, error), err error, show func(T) error) error {
	if err != nil {
		return err
	}
	return r.Every(func() error {
		now, err := read()
		if err != nil {
			return err
		}
		return show(now)
	})
}
