package python

import "github.com/borescope/borescope/stack/internal/rules"

// Rules are where an interpreter keeps its frames: addresses, and offsets in CPython's structures.
type Rules = rules.Python

// Rules returns the interpreter's offsets for the walker inside BPF (package bpfwalk).
func (p *Interpreter) Rules() Rules {
	l := &p.layout
	r := rules.Python{
		Dev: p.pidns.Dev, Inode: p.pidns.Inode,
		Interpreters: p.runtime + l.interpreters,
		InterpNext:   l.interpNext, Threads: l.interpThreads,
		ThreadNext: l.threadNext, ThreadID: l.threadID,
		ThreadFrame: l.threadFrame, ViaCFrame: l.viaCFrame, CFrameFrame: l.cframeFrame,
		FrameCode: l.frameCode, FramePrevious: l.framePrevious,
		Mark: l.frameEntry,
	}
	if r.Mark == 0 {
		r.Mark, r.MarkIs = l.frameOwner, ownedByCStack
	}
	return r
}
