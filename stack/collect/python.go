package collect

import (
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/python"
	"github.com/borescope/borescope/symbol"
)

// Functions of CPython by which its frames are recognized.
const (
	pythonLoop = "_PyEval_EvalFrameDefault" // runs interpreted frames
	pythonShim = "py::<shim>"               // the interpreter's own, which is left out
)

// interpretedTag tells the address of an interpreted frame's code object from that of
// native code.
const interpretedTag = 1 << 62

// lookupPC is the address to name a frame by.
func lookupPC(f stack.Frame) uint64 {
	if f.Source == stack.SourceInterpreter {
		return f.PC | interpretedTag
	}
	return f.LookupPC()
}

// Resolver returns native with names added for the interpreted frames of a process in which
// AddProcess found an interpreter: py::FUNCTION:FILE, as CPython itself names them for perf
// (-X perf). They can be read while the process lives. For other processes, and for a
// replay, it returns native itself; in a replay native has these names (symbol.Recording).
func (c *Collector) Resolver(pid int, native symbol.Resolver) symbol.Resolver {
	p := c.Python(pid)
	if p == nil {
		return native
	}
	return &pythonNames{native, p}
}

type pythonNames struct {
	native symbol.Resolver
	python *python.Interpreter
}

// Resolve implements symbol.Resolver.
func (n *pythonNames) Resolve(dst []symbol.Frame, pcs []uint64) []symbol.Frame {
	var native []uint64
	var index []int // of native, in pcs
	for i, pc := range pcs {
		if pc&interpretedTag != 0 {
			dst = append(dst, n.interpreted(i, pc&^interpretedTag))
			continue
		}
		native, index = append(native, pc), append(index, i)
	}
	first := len(dst)
	dst = n.native.Resolve(dst, native)
	for i := first; i < len(dst); i++ {
		dst[i].Index = index[dst[i].Index]
	}
	return dst
}

// interpreted names a code object.
func (n *pythonNames) interpreted(i int, addr uint64) symbol.Frame {
	code, err := n.python.Code(addr)
	switch {
	case err != nil: // the process has ended, or does not need it any more
		return symbol.Frame{Index: i, Reason: symbol.ReasonExited}
	case code.Shim:
		return symbol.Frame{Index: i, Name: pythonShim}
	}
	return symbol.Frame{
		Index: i, Name: "py::" + code.Name + ":" + code.File, File: code.File,
		Line: code.FirstLine,
	}
}
