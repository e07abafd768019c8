package mapx

import "context"

// Record is one event as its program emitted it. ReadInto reuses Data.
type Record struct {
	// Data is the payload. It is overwritten by the next ReadInto with the
	// same Record; its capacity is kept.
	Data []byte
	// CPU is the CPU whose buffer the record came from, -1 for a ring buffer,
	// which all CPUs share.
	CPU int
	// Lost is the number of records that were lost on this source since the previous record, as
	// far as is known when this one is read. A source's total is exact at the end: see the
	// source's Stats.
	Lost uint64
	// Remaining is the number of bytes that were still unread behind this record when it was
	// read; 0 if the buffer is drained.
	Remaining int
}

// Source is a stream of records: a Ring, a PerfBuffer, or the replay of either. It is for one
// goroutine at a time; only Close of the value behind it may be called from another.
//
// ReadInto waits for the next record and stores it in rec. Its error is ctx.Err() when ctx
// ends, os.ErrClosed after Close, io.EOF at the end of a recording. A record that is already
// available is returned even if ctx has ended.
type Source interface {
	ReadInto(ctx context.Context, rec *Record) error
}

// StatsSource is a Source that counts its records.
type StatsSource interface {
	Source
	// Stats returns the counts so far.
	Stats() (Stats, error)
}

// Table is a typed view of a BPF map: a live map, a live per-CPU map (whose V
// is a slice by CPU, or a reduced value), or the replay of either. It is safe
// for concurrent use.
type Table[K, V any] interface {
	// Snapshot returns the current entries.
	Snapshot() (Snapshot[K, V], error)
	// ReadAndClear returns the entries and removes them. Of a Flip, and of a recording, it loses
	// nothing. Of another map it loses what a program adds to an entry that it looked up before
	// the deletion: some 70 of a million (see Map.ReadAndClear).
	ReadAndClear() (Snapshot[K, V], error)
}

// Entry is a key and its value.
type Entry[K, V any] struct {
	Key   K
	Value V // for a per-CPU table a slice, by possible CPU
}

// Snapshot is the plain data of a table at one moment. Its order is the
// map's own, which is arbitrary, unless a method says otherwise.
type Snapshot[K, V any] struct {
	// Entries are the entries; nil, or empty, if there are none.
	Entries []Entry[K, V]
}
