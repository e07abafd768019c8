// Package recording keeps what a tool read, streams of events and tables over time, in a
// directory that replays on any machine, without a kernel and without privileges: Create
// and Recorder for the writing, Open and Recording for the reading. Both are the
// interfaces that live maps and rings have, mapx.Source and mapx.Table, so that a tool's
// code can't tell, and its tests need no root.
//
//	rec, err := recording.Create(dir, &recording.Meta{Tool: "runqlat"})
//	if err != nil {
//		return err
//	}
//	events := rec.Stream("events", ring)                // reads, and writes down
//	counts := recording.RecordTable(rec, "counts", table)
//
// A recording also has named files (Recorder.Create), such as what symbols were named by,
// and the files of the host (package hostfs). FORMAT.md, beside this file, is the format: a
// version that was released replays for ever.
//
// It is no store for queries: a stream is read from its beginning, as fast as it was
// recorded or faster (ReplayOptions).
//
// # Lifetime and trust
//
// Recorder, Recording and their handles hold files until Close. The package starts no
// goroutine. Who may read a recording is its owner alone; what is read may be anybody's, so
// that all of it is checked, and memory is bounded by what the files take up.
package recording
