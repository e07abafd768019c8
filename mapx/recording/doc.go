// Package recording keeps the data that a tool read, streams of events and tables over
// time, in a directory that replays on any machine, without a kernel and without
// privileges. Create and Recorder write it, Open and Recording read it. Both have the
// interfaces of live maps and rings, mapx.Source and mapx.Table, so a tool's code is the
// same for all, and its tests need no root.
//
//	rec, err := recording.Create(dir, &recording.Meta{Tool: "runqlat"})
//	if err != nil {
//		return err
//	}
//	events := rec.Stream("events", ring)                // reads, and writes down
//	counts := recording.RecordTable(rec, "counts", table)
//
// A recording also has named files (Recorder.Create), such as the symbols that were used,
// and the files of the host (package hostfs). FORMAT.md, beside this file, describes the
// format: every released version stays readable.
//
// A recording is not a store for queries: a stream is read from its beginning, as fast as
// it was recorded or faster (ReplayOptions).
//
// # Lifetime and trust
//
// Recorder, Recording and their handles hold files until Close. The package starts no
// goroutine. Only its owner can read a recording. The contents of a recording are not
// trusted: all of it is checked when it is read, and memory is bounded by the size of the
// files.
package recording
