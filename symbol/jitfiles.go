package symbol

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// jitFiles are the files of a process's JIT compilers: a perf map and a jitdump. Each is read
// again when it changed.
type jitFiles struct {
	read     time.Time
	cost     time.Duration // of reading them last
	perf     *PerfMap
	perfSeen fileState
	dump     *JITDump
	dumpSeen fileState
	tooLarge bool // one of them was
}

// fileState is how far a file was read.
type fileState struct {
	size  int64
	mtime time.Time
}

func (f *jitFiles) bytes() int64 {
	var n int64
	if f.perf != nil {
		n += f.perf.bytes()
	}
	if f.dump != nil {
		n += f.dump.bytes()
	}
	return n
}

// name names an address by either file. The jitdump has source lines as well.
func (f *jitFiles) name(fr *Frame, pc uint64) bool {
	return f.dump != nil && f.dump.name(fr, pc) || f.perf != nil && f.perf.name(fr, pc)
}

// nameJIT names an address in memory of no file. An address that was named before may contain
// other code by now, so the files are checked for it as well, within a twentieth of the time.
func (p *Process) nameJIT(fr *Frame, pc uint64) {
	known := p.jit != nil && p.jit.name(fr, pc)
	if p.jit != nil {
		gap := missGap
		if known {
			gap = max(gap, 20*p.jit.cost)
		}
		if p.exited || p.ps.now().Sub(p.jit.read) < gap {
			return
		}
	} else {
		p.jit = &jitFiles{}
	}
	p.jit.read = p.ps.now()
	p.readPerfMap()
	p.readJITDump()
	p.jit.cost = p.ps.now().Sub(p.jit.read)
	if !p.jit.name(fr, pc) && p.jit.tooLarge {
		fr.Reason = ReasonBudget
	}
}

// readPerfMap reads the perf map if the file changed. Its name has the process's own pid,
// that of the innermost pid namespace, and it is in the process's own /tmp.
func (p *Process) readPerfMap() {
	if p.nspid == 0 {
		p.nspid = procfs.NSpid(p.ps.root, p.pid)
	}
	p.readJITFile(fmt.Sprintf("/tmp/perf-%d.map", p.nspid), &p.jit.perfSeen, 1, func(r io.Reader) error {
		m, err := parsePerfMap(r, p.jitRoom())
		if err == nil {
			p.jit.perf = m
		}
		return err
	})
}

// readJITDump reads the jitdump if the process has one. The process maps the file executable,
// only so that tools can find it.
func (p *Process) readJITDump() {
	for i := range p.maps {
		path := p.maps[i].path
		base := path[strings.LastIndexByte(path, '/')+1:]
		if !strings.HasPrefix(base, "jit-") || !strings.HasSuffix(base, ".dump") {
			continue
		}
		p.readJITFile(path, &p.jit.dumpSeen, dumpPart, func(r io.Reader) error {
			d, err := parseJITDump(io.LimitReader(r, maxJITDump), p.jitRoom())
			if err == nil {
				p.jit.dump = d
			}
			return err
		})
		return
	}
}

// maxJITDump is the largest part of a jitdump that is read, in bytes: the file contains the
// code as well.
const maxJITDump = 1 << 30

// dumpPart is how much of a jitdump is about symbols: most is code, which is skipped.
const dumpPart = 8

// jitRoom returns the memory that reading one of the process's files may take, in bytes.
func (p *Process) jitRoom() int64 { return min(2*p.ps.opts.tableRoom(), p.room()) }

// readJITFile reads a file of the process's root if it changed and is the process's own: every
// user may make files in /tmp. Reading one part in so many of it is part of the work that
// Options.Budget bounds.
func (p *Process) readJITFile(path string, seen *fileState, part int64, read func(io.Reader) error) {
	f, err := p.openOwn(path)
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return
	}
	now := fileState{st.Size(), st.ModTime()}
	if now == *seen {
		return
	}
	if err = p.ps.startTable(p.ownerOf(st), st.Size()/part); err == nil {
		err = read(f)
	}
	if errors.Is(err, elffile.ErrTooLarge) {
		*seen, p.jit.tooLarge = now, true
	} else if err == nil {
		*seen = now
		p.recount()
	}
}

// openOwn opens a file of the process's own, in its root.
func (p *Process) openOwn(path string) (fs.File, error) {
	if !p.ps.live {
		return p.ps.openRecorded(p.pid, path)
	}
	pid := p.pid
	if _, gone := os.Stat(procfs.Dir(pid)); gone != nil {
		pid = os.Getpid() // the process ended: it most likely had this process's root
	}
	return procfs.OpenOwn(p.files(), pid, path)
}
