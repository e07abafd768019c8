package symbol

import (
	"errors"
	"time"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/stranger"
)

// The limits of the work for all processes together (Options.Budget). Those of a process, and
// of a user, are parts of them: stranger.Share.
const (
	// tableWork is the number of bytes of symbols that may be read of all files at once, and
	// fileWork what a file takes besides, however few it has.
	tableWork = 512 << 20
	fileWork  = 4 << 10
)

// filesLimit is the number of files that may be opened. A system with 500 containers has about
// 10,000.
var filesLimit = stranger.Limit{Base: 32 << 10, Second: 640}

// smallProcess is the memory that a process may take in any case: with its mappings, their
// paths and what is known of its files. One of 30 files takes a fifth of it.
const smallProcess = 64 << 10

var errTooMuchWork = errors.New("reading symbols has taken its share of the work")

// tableRoom returns the memory that a symbol table may take, room the memory that a file's
// sections may take when decompressed, in bytes.
func (o *Options) tableRoom() int64 { return max(o.Budget, 1<<20) }

func (o *Options) room() int64 {
	if o.Source {
		return 16 * o.tableRoom()
	}
	return o.tableRoom()
}

// clock returns the time for shares of work. On a recorded machine none passes, so that a
// replay reads the same on any machine.
func (ps *Processes) clock() time.Time {
	if !ps.live {
		return time.Time{}
	}
	return ps.now()
}

// startTable accounts for the work of reading a table of that size in a file of that owner, for
// the process whose addresses are named. The caller holds mu.
func (ps *Processes) startTable(o stranger.Owner, size int64) error {
	if !ps.work.Take(o, ps.reader.party(), size, stranger.Bytes(tableWork), ps.clock()) {
		return errTooMuchWork
	}
	return nil
}

// startFile accounts for the work of opening a file for a process.
func (p *Process) startFile() error {
	if !p.ps.files.Take(stranger.Owner{}, p.party(), 1, filesLimit, p.ps.clock()) {
		return errTooMuchWork
	}
	return nil
}

// party returns for whom the process's files are read.
func (p *Process) party() stranger.Party {
	if p == nil {
		return stranger.Party{}
	}
	if !p.ps.live {
		return stranger.Party{PID: p.pid}
	}
	return p.ps.work.Party(p.pid, p.files().UID)
}

// reads notes that a process's addresses are looked up now: what is read is read for it.
func (ps *Processes) reads(p *Process) {
	ps.tick++
	ps.reader = p
	ps.touched = ps.touched[:0]
	ps.recent(p)
}

// touch notes that an ELF is used now.
func (ps *Processes) touch(e *ELF) {
	if e.used == ps.tick {
		return
	}
	e.used = ps.tick
	ps.touched = append(ps.touched, e)
	if e.inTables != nil {
		ps.tables.MoveToBack(e.inTables)
	}
}

// count brings the account of a file's memory up to date.
func (ps *Processes) count(e *ELF) {
	n := e.bytes()
	ps.elfBytes += n - e.counted
	e.counted = n
	switch has := e.hasTables(); {
	case has && e.inTables == nil:
		e.inTables = ps.tables.PushBack(e)
	case !has && e.inTables != nil:
		ps.tables.Remove(e.inTables)
		e.inTables = nil
	}
}

// forgetELF ends the account of a file.
func (ps *Processes) forgetELF(e *ELF) {
	ps.elfBytes -= e.counted
	ps.headers -= elffile.Headers(e.f)
	e.counted = 0
	if e.inTables != nil {
		ps.tables.Remove(e.inTables)
		e.inTables = nil
	}
}

// trim drops tables, those used longest ago first, until the budget is kept. Files stay open:
// the tables can be made again.
func (ps *Processes) trim() {
	if !ps.grown.Swap(false) {
		return
	}
	for _, e := range ps.touched {
		if e.refs > 0 {
			ps.count(e)
		}
	}
	for e := ps.tables.Front(); e != nil && ps.names.bytes()+ps.elfBytes > ps.opts.Budget; {
		elf := e.Value.(*ELF)
		e = e.Next()
		elf.dropTables()
		ps.count(elf)
	}
}

// bytes returns the memory in use, in bytes.
func (ps *Processes) bytes() int64 {
	return ps.names.bytes() + ps.elfBytes + ps.procBytes + ps.imageBytes
}

// limitHeaders makes room for the headers of another file, which are not dropped with its
// tables: all of them together may take half of the budget.
func (ps *Processes) limitHeaders(img *image, size int64) {
	for e := ps.mapped.Front(); e != nil && ps.headers+size > ps.opts.tableRoom()/2; {
		other := e.Value.(*image)
		e = e.Next()
		if other != img {
			ps.unmap(other)
		}
	}
}

// room returns the memory that a process may take for its mappings and its compilers' files,
// which are kept while the process is. All together may take four times the budget, and one half
// of what the others leave.
func (p *Process) room() int64 {
	ps := p.ps
	ps.memory.Total, ps.memory.Parts = 4*ps.opts.tableRoom(), 2
	most := ps.memory.Most(p)
	if most < ps.opts.tableRoom() {
		// Those that have ended come last.
		for _, other := range ps.memory.Keys() {
			if other.exited && other != p {
				ps.drop(other)
			}
		}
		most = ps.memory.Most(p)
	}
	return max(most, smallProcess)
}

// recount brings the account of a process's memory up to date. If that exceeds what the process
// may take, its earlier states go.
func (p *Process) recount() {
	if p.in == nil {
		return
	}
	size := listSize{200, 0}.plus(sizeOf(p.maps))
	for i := range p.old {
		size = size.plus(p.old[i].size)
	}
	if p.jit != nil {
		n := p.jit.bytes()
		size = size.plus(listSize{n, n})
	}
	for room := p.room(); size.cost > room && len(p.old) > 0; {
		last := p.old[len(p.old)-1]
		p.dropOld()
		size = listSize{size.bytes - last.size.bytes, size.cost - last.size.cost}
	}
	p.account(size)
}

// account sets the memory that a process is known to take.
func (p *Process) account(size listSize) {
	ps := p.ps
	ps.procBytes += size.bytes - p.size.bytes
	ps.memory.Give(p, p.size.cost-smallProcess)
	ps.memory.Add(p, size.cost-smallProcess)
	p.size = size
}

// listSize is the memory of mappings: what they take themselves, and what they cost together
// with their images, which processes share.
type listSize struct{ bytes, cost int64 }

func (s listSize) plus(t listSize) listSize { return listSize{s.bytes + t.bytes, s.cost + t.cost} }

// Sizes in memory, in bytes.
const (
	mappingSize = 80
	imageSize   = 400 // with what an open file takes
)

func sizeOf(maps []mapping) (size listSize) {
	size.bytes = int64(mappingSize * cap(maps))
	size.cost = size.bytes
	for i := range maps {
		m := &maps[i]
		n := int64(len(m.path))
		if m.img == nil || m.img.path != m.path {
			size.bytes += n
		}
		size.cost += n
		if m.img != nil {
			size.cost += imageSize
		}
	}
	return size
}
