package python

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/borescope/borescope/stack"
)

// endless is the memory of an interpreter that has as many threads, with as many frames, as its
// fields say. Each frame has a code object of its own, with long names and a long table, unless
// short is set.
type endless struct {
	threads, frames uint64
	short           bool

	calls, bytes int
}

// Where it has what.
const (
	endlessRuntime = 1 << 40
	endlessThreads = 2 << 40 // 4 KiB each, as all that follows
	endlessFrames  = 3 << 40
	endlessCodes   = 4 << 40
	endlessText    = 5 << 40
	endlessTable   = 6 << 40
)

func (m *endless) ReadMemory(b []byte, addr uint64) error {
	m.calls++
	m.bytes += len(b)
	for i := 0; i+8 <= len(b) && i < 512; i += 8 {
		at := addr + uint64(i)
		binary.LittleEndian.PutUint64(b[i:], m.word(at>>40<<40, at<<24>>36, at&0xfff))
	}
	return nil
}

// word returns the word at an offset in an object of an area.
func (m *endless) word(area, n, off uint64) uint64 {
	l := layouts[12]
	next := func(count uint64) uint64 {
		if n+1 == count {
			return 0
		}
		return area + (n+1)<<12
	}
	switch {
	case area == endlessRuntime && n == 0 && off == l.interpreters:
		return endlessRuntime + 1<<12
	case area == endlessRuntime && n == 1 && off == l.interpThreads:
		return endlessThreads
	case area == endlessThreads && off == l.threadID:
		return n + 1
	case area == endlessThreads && off == l.threadNext:
		return next(m.threads)
	case area == endlessThreads && off == l.threadFrame:
		return endlessThreads + 1<<11
	case area == endlessThreads && off == 1<<11+l.cframeFrame:
		return endlessFrames
	case area == endlessFrames && off == l.framePrevious:
		return next(m.frames)
	case area == endlessFrames && off == l.frameCode:
		return endlessCodes + n<<12
	case area == endlessFrames && off == l.frameInstr:
		return endlessCodes + n<<12 + l.codeInstrs + 2
	case area == endlessCodes && (off == l.codeQualname || off == l.codeName):
		return endlessText
	case area == endlessCodes && off == l.codeFile:
		return endlessText + 1<<12
	case area == endlessCodes && off == l.codeLines:
		return endlessTable
	case area == endlessText && off == l.textLength:
		if m.short {
			return 10
		}
		return maxText
	case area == endlessText && off == l.textState:
		return 4<<2 | 1<<5
	case area == endlessTable && off == l.bytesSize:
		if m.short {
			return 100
		}
		return maxLines
	}
	return 0
}

// interpreterIn returns the interpreter in an endless memory.
func interpreterIn(m *endless) *Interpreter {
	return &Interpreter{Version: 0x030c0000, mem: m, runtime: endlessRuntime, layout: layouts[12]}
}

// TestFramesBudget: the frames of a thread are read as far as its budget goes. Tables of 1 MiB
// for each of 65,536 frames were 64 GiB.
func TestFramesBudget(t *testing.T) {
	for _, m := range []*endless{
		{threads: 1, frames: 1 << 40}, {threads: 1, frames: 1 << 40, short: true}, {threads: 1 << 40, frames: 1, short: true},
	} {
		for range 2 { // each call has its own
			m.calls, m.bytes = 0, 0
			frames, err := interpreterIn(m).Frames(nil, 1)
			if m.threads == 1 && (!errors.Is(err, stack.ErrBudget) || len(frames) < 20) || m.threads > 1 && len(frames) != 1 {
				t.Errorf("%+v: %d frames, %v", m, len(frames), err)
			}
			if m.calls > 1<<18 || m.bytes > 32<<20 {
				t.Errorf("%d reads of %d bytes", m.calls, m.bytes)
			}
		}
	}
	// A thread that is not there, in a list without an end.
	m := &endless{threads: 1 << 40, frames: 1}
	if _, err := interpreterIn(m).Frames(nil, 1<<30); m.calls > 1<<18 {
		t.Errorf("%d reads, %v", m.calls, err)
	}
}

// TestRecursion: as many frames of one function as are followed are within the budget.
func TestRecursion(t *testing.T) {
	m := &oneCode{endless{threads: 1, frames: maxFrames - 1, short: true}}
	p := interpreterIn(&m.endless)
	p.mem = m
	if frames, err := p.Frames(nil, 1); err != nil || len(frames) != maxFrames-1 {
		t.Errorf("%d frames, %v", len(frames), err)
	}
}

// oneCode is an endless memory whose frames are all of one function.
type oneCode struct{ endless }

func (m *oneCode) ReadMemory(b []byte, addr uint64) error {
	err := m.endless.ReadMemory(b, addr)
	if addr>>40<<40 == endlessFrames {
		binary.LittleEndian.PutUint64(b[layouts[12].frameCode:], endlessCodes)
		binary.LittleEndian.PutUint64(b[layouts[12].frameInstr:], endlessCodes)
	}
	return err
}

// TestWithin: code objects are named as far as a shared budget goes, of twenty processes with
// 200,000 each no more than of eight, and of an honest one after them as well. Each
// process was read for as long as it had names.
func TestWithin(t *testing.T) {
	var b stack.Budget
	calls, size := 0, 0
	for pid := range 20 {
		m := &endless{short: pid%2 == 0}
		p := interpreterIn(m)
		p.pid = pid
		p = p.Within(&b)
		named, refused := 0, 0
		for n := range uint64(200_000) {
			switch _, err := p.Code(endlessCodes + n<<12); {
			case err == nil:
				named++
			case errors.Is(err, stack.ErrBudget):
				refused++
			default:
				t.Fatal(err)
			}
		}
		if named+refused != 200_000 || named == 0 || refused == 0 || m.calls > 64<<10 || m.bytes > 16<<20 {
			t.Errorf("process %d: %d named in %d reads of %d bytes, %d refused", pid, named, m.calls, m.bytes, refused)
		}
		calls, size = calls+m.calls, size+m.bytes
	}
	if calls > 8*64<<10 || size > 8*16<<20 {
		t.Errorf("%d reads of %d bytes", calls, size)
	}
	p := interpreterIn(&endless{short: true})
	p.pid = 20
	p = p.Within(&b)
	for n := range uint64(100) {
		if _, err := p.Code(endlessCodes + n<<12); err != nil {
			t.Fatalf("%d named: %v", n, err)
		}
	}
}

// TestCoreBudget: all threads of a core file have one budget, and what they share is read once.
// Each of them had the whole list of frames, and of the threads before it, read again.
func TestCoreBudget(t *testing.T) {
	open := func(m *endless) *Interpreter {
		p := interpreterIn(m)
		p.kept = new(kept)
		return p.Within(coreBudget())
	}
	honest := &endless{threads: 2000, frames: 50, short: true}
	p := open(honest)
	for tid := range 2000 {
		frames, err := p.Frames(nil, tid+1)
		if err != nil || len(frames) != 50 {
			t.Fatalf("thread %d: %d frames, %v", tid, len(frames), err)
		}
		for _, f := range frames {
			if _, err := p.Code(f.PC); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most := 2000*(2+2+50*3) + 50*7 + 10; honest.calls > most {
		t.Errorf("%d reads, want at most %d", honest.calls, most)
	}
	for _, m := range []*endless{
		{threads: 1 << 20, frames: 10_000}, {threads: 1 << 20, frames: 1 << 40, short: true},
	} {
		p := open(m)
		for tid := range 10_000 {
			_, _ = p.Frames(nil, tid+1)
		}
		if _, err := p.Frames(nil, 10); !errors.Is(err, stack.ErrBudget) || m.calls > 4<<20 || m.bytes > 128<<20 {
			t.Errorf("%d reads of %d bytes, %v", m.calls, m.bytes, err)
		}
	}
}
