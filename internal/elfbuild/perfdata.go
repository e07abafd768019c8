package elfbuild

import (
	"encoding/binary"
	"fmt"
)

// PerfData is a perf.data file in the format of "perf record": one event, with a thread and a
// time in its records.
type PerfData struct {
	// Attrs is the number of descriptions of the event, all with the same ids; 0 means 1.
	Attrs int
	// IDs is the number of the event's ids.
	IDs int

	records []byte
	time    uint64
}

// These are types of records (enum perf_event_type).
const (
	perfMmap   = 1
	perfComm   = 3
	perfFork   = 7
	perfSample = 9
)

// record appends a record, with the thread and the time at its end.
func (p *PerfData) record(typ uint32, misc uint16, pid uint32, body []byte) {
	p.time++
	body = append(body, perfWords("", pid, pid)...)
	body = binary.LittleEndian.AppendUint64(body, p.time)
	b := binary.LittleEndian.AppendUint32(p.records, typ)
	b = binary.LittleEndian.AppendUint16(b, misc)
	b = binary.LittleEndian.AppendUint16(b, uint16(8+len(body)))
	p.records = append(b, body...)
}

func perfWords(text string, words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	if text != "" {
		b = append(append(b, text...), 0)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
	}
	return b
}

// Mmap adds a record of a process that maps executable pages of a file.
func (p *PerfData) Mmap(pid uint32, addr, size uint64, path string) {
	b := perfWords("", pid, pid)
	b = binary.LittleEndian.AppendUint64(b, addr)
	b = binary.LittleEndian.AppendUint64(b, size)
	b = binary.LittleEndian.AppendUint64(b, 0)
	p.record(perfMmap, 0, pid, append(b, perfWords(path)...))
}

// Comm adds a record of a process's name.
func (p *PerfData) Comm(pid uint32, name string) {
	p.record(perfComm, 0, pid, perfWords(name, pid, pid))
}

// Exec adds a record of a process that executes a program.
func (p *PerfData) Exec(pid uint32, name string) {
	const execed = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC
	p.record(perfComm, execed, pid, perfWords(name, pid, pid))
}

// Fork adds a record of a fork.
func (p *PerfData) Fork(parent, child uint32) {
	p.record(perfFork, 0, parent,
		binary.LittleEndian.AppendUint64(perfWords("", child, parent, child, parent), p.time))
}

// Sample adds a sample of a process.
func (p *PerfData) Sample(pid uint32) { p.record(perfSample, 0, pid, nil) }

// Bytes returns the file: struct perf_file_header, the ids, struct perf_file_attr, the
// records.
func (p *PerfData) Bytes() []byte {
	const headerSize, attrSize = 104, 128 + 16
	const sampleTID, sampleTime, sampleIDAll = 1 << 1, 1 << 2, 1 << 18
	attrs := max(p.Attrs, 1)
	le := binary.LittleEndian
	b := make([]byte, headerSize)
	copy(b, "PERFILE2")
	ids := uint64(len(b))
	for i := range p.IDs {
		b = le.AppendUint64(b, uint64(i))
	}
	for i, v := range []uint64{
		headerSize, attrSize, uint64(len(b)), uint64(attrs * attrSize),
		uint64(len(b) + attrs*attrSize), uint64(len(p.records)),
	} {
		le.PutUint64(b[8+8*i:], v)
	}
	for range attrs {
		var a [attrSize]byte
		le.PutUint32(a[0:], 1) // PERF_TYPE_SOFTWARE; its event 0 is cpu-clock
		le.PutUint32(a[4:], attrSize-16)
		le.PutUint64(a[24:], sampleTID|sampleTime)
		le.PutUint64(a[40:], sampleIDAll)
		le.PutUint64(a[attrSize-16:], ids)
		le.PutUint64(a[attrSize-8:], uint64(8*p.IDs))
		b = append(b, a[:]...)
	}
	return append(b, p.records...)
}

// perfBombs returns recordings that processes can cause by their behaviour, and files that no
// perf recorded.
func perfBombs() []Bomb {
	bomb := func(name string, make func(p *PerfData)) Bomb {
		return Bomb{Name: name, Kind: Perf, Make: func() []byte {
			var p PerfData
			make(&p)
			return p.Bytes()
		}}
	}
	path := func(i uint32) string { return fmt.Sprintf("/x/%d", i) }
	return []Bomb{
		bomb("perf-processes", func(p *PerfData) {
			for i := range uint32(170_000) {
				p.Comm(i, "a")
				p.Sample(i)
			}
		}),
		bomb("perf-mappings", func(p *PerfData) { // one more before each sample
			for i := range uint32(90_000) {
				p.Mmap(1, 1<<40-uint64(i)<<13, 1<<12, "//anon")
				p.Sample(1)
			}
		}),
		bomb("perf-mappings-within-each-other", func(p *PerfData) {
			for i := range uint64(90_000) {
				p.Mmap(1, 1<<30+i<<12, 1<<40-i<<13, "//anon")
				p.Sample(1)
			}
		}),
		// forks of a process with many mappings, each with a mapping of its own
		bomb("perf-forks", func(p *PerfData) {
			for i := range uint64(20_000) {
				p.Mmap(1, i<<13, 1<<12, "//anon")
			}
			for i := range uint32(50_000) {
				p.Fork(1, i+2)
				p.Mmap(i+2, 1<<40, 1<<12, "//anon")
				p.Sample(i + 2)
			}
		}),
		bomb("perf-generations", func(p *PerfData) { // each is the child of the one before
			for i := range uint32(80_000) {
				p.Mmap(i+1, uint64(i)<<13, 1<<12, "//anon")
				p.Fork(i+1, i+2)
				p.Sample(i + 2)
			}
		}),
		bomb("perf-files", func(p *PerfData) {
			for i := range uint32(100_000) {
				p.Mmap(i, 1<<40, 1<<12, path(i))
				p.Sample(i)
			}
		}),
		bomb("perf-ids", func(p *PerfData) {
			p.Attrs, p.IDs = 5000, 900_000
			p.Sample(1)
		}),
	}
}
