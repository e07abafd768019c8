package symbol

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/procfs"
)

// jitFiles is what a process's JIT compilers wrote: a perf map and a jitdump,
// each read again when it grew.
type jitFiles struct {
	read     time.Time
	perf     *PerfMap
	perfSize int64
	dump     *JITDump
	dumpSize int64
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

// name names an address by either file; the jitdump knows lines as well.
func (f *jitFiles) name(fr *Frame, pc uint64) bool {
	return f.dump != nil && f.dump.name(fr, pc) || f.perf != nil && f.perf.name(fr, pc)
}

// nameJIT names an address in memory that is no file's.
func (p *Process) nameJIT(fr *Frame, pc uint64) {
	if p.jit != nil && p.jit.name(fr, pc) {
		return
	}
	if p.jit != nil && (p.exited || p.ps.now().Sub(p.jit.read) < missGap) {
		return
	}
	if p.jit == nil {
		p.jit = &jitFiles{}
	}
	p.jit.read = p.ps.now()
	p.readPerfMap()
	p.readJITDump()
	p.jit.name(fr, pc)
}

// readPerfMap reads the perf map if the file changed. The process names it for
// itself, the innermost pid namespace's number, in its own /tmp.
func (p *Process) readPerfMap() {
	if p.nspid == 0 {
		p.nspid = procfs.NSpid(p.ps.root, p.pid)
	}
	p.readJITFile(fmt.Sprintf("/tmp/perf-%d.map", p.nspid), &p.jit.perfSize, func(r io.Reader) error {
		m, err := ParsePerfMap(r)
		if err == nil {
			p.jit.perf = m
		}
		return err
	})
}

// readJITDump reads the jitdump if there is one: the process maps the file
// executable, for no other purpose than that tools find it.
func (p *Process) readJITDump() {
	for i := range p.maps {
		path := p.maps[i].path
		base := path[strings.LastIndexByte(path, '/')+1:]
		if !strings.HasPrefix(base, "jit-") || !strings.HasSuffix(base, ".dump") {
			continue
		}
		p.readJITFile(path, &p.jit.dumpSize, func(r io.Reader) error {
			d, err := ParseJITDump(io.LimitReader(r, maxJITDump))
			if err == nil {
				p.jit.dump = d
			}
			return err
		})
		return
	}
}

// maxJITDump is the most of a jitdump that is read: it holds the code as well.
const maxJITDump = 1 << 30

// readJITFile reads a file of the process's root if its size changed.
func (p *Process) readJITFile(path string, size *int64, read func(io.Reader) error) {
	f, err := p.ps.openInRoot(p.pid, path)
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() == *size {
		return
	}
	if read(f) == nil {
		*size = st.Size()
		p.ps.grown.Store(true)
	}
}

// openInRoot opens a path as the process sees it.
func (ps *Processes) openInRoot(pid int, path string) (fs.File, error) {
	if !ps.live {
		return ps.openRecorded(pid, path)
	}
	f, err := procfs.OpenInRoot(pid, path)
	if err == nil {
		return f, nil
	}
	if _, gone := os.Stat("/proc/" + strconv.Itoa(pid)); gone == nil {
		return nil, err
	}
	// The process ended: it most likely had our root.
	return os.OpenFile(path, os.O_RDONLY|openFlags, 0)
}
