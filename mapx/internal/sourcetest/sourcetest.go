// Package sourcetest contains a source of records for tests.
package sourcetest

import (
	"context"
	"io"
	"testing"

	"github.com/borescope/borescope/mapx"
)

// List is a Source that returns Records. At is the index of the next one.
type List struct {
	Records []mapx.Record
	At      int
	Counts  mapx.Stats
}

// ReadInto reads the next record.
func (s *List) ReadInto(_ context.Context, rec *mapx.Record) error {
	if s.At == len(s.Records) {
		return io.EOF
	}
	r := &s.Records[s.At]
	s.At++
	rec.Data = append(rec.Data[:0], r.Data...)
	rec.CPU, rec.Lost, rec.Remaining = r.CPU, r.Lost, r.Remaining
	return nil
}

// Stats returns Counts.
func (s *List) Stats() (mapx.Stats, error) { return s.Counts, nil }

// ReadAll reads records until an error, and returns the records before it with the error.
func ReadAll(t testing.TB, src mapx.Source) ([]mapx.Record, error) {
	t.Helper()
	var all []mapx.Record
	for {
		var rec mapx.Record
		if err := src.ReadInto(t.Context(), &rec); err != nil {
			return all, err
		}
		all = append(all, rec)
	}
}
