package collect

import (
	"errors"

	"github.com/borescope/borescope/internal/procfs"
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
// (-X perf). They can be read while the process lives, and within a budget (stack.Budget) for
// all processes that begins anew with each call of Samples; those beyond it have the reason
// symbol.ReasonBudget, and those that a process's memory keeps waiting for, because another one
// serves it, symbol.ReasonServed. For other processes, and for a replay, it returns native itself; in a
// replay native has these names (symbol.Recording).
func (c *Collector) Resolver(pid int, native symbol.Resolver) symbol.Resolver {
	p := c.Python(pid)
	if p == nil {
		return native
	}
	return &pythonNames{native, p, pid}
}

type pythonNames struct {
	native symbol.Resolver
	python codes
	pid    int
}

// During implements symbol.Timed. Interpreted frames have no times.
func (n *pythonNames) During(start, first, last uint64) (symbol.Resolver, symbol.State) {
	native, state := symbol.During(n.native, start, first, last)
	return &pythonNames{native, n.python, n.pid}, state
}

// codes reads code objects: *python.Interpreter.
type codes interface {
	Code(addr uint64) (*python.Code, error)
}

// Resolve implements symbol.Resolver.
func (n *pythonNames) Resolve(dst []symbol.Frame, pcs []uint64) []symbol.Frame {
	var native, objects []uint64
	var index, at []int // of native and of objects, in pcs
	for i, pc := range pcs {
		if pc&interpretedTag != 0 {
			objects, at = append(objects, pc&^interpretedTag), append(at, i)
		} else {
			native, index = append(native, pc), append(index, i)
		}
	}
	dst = n.interpreted(dst, objects, at)
	first := len(dst)
	dst = n.native.Resolve(dst, native)
	for i := first; i < len(dst); i++ {
		dst[i].Index = index[dst[i].Index]
	}
	return dst
}

// interpreted names code objects. Those for which the process keeps it waiting have no names.
func (n *pythonNames) interpreted(dst []symbol.Frame, objects []uint64, at []int) []symbol.Frame {
	if len(objects) == 0 {
		return dst
	}
	first := len(dst)
	err := procfs.Receive(n.pid, func(send func(symbol.Frame) bool) {
		for _, addr := range objects {
			if !send(n.frame(addr)) {
				return
			}
		}
	}, func(f symbol.Frame) { dst = append(dst, f) })
	for err != nil && len(dst)-first < len(objects) {
		dst = append(dst, symbol.Frame{Reason: symbol.ReasonServed})
	}
	for i := range objects {
		dst[first+i].Index = at[i]
	}
	return dst
}

// frame names a code object.
func (n *pythonNames) frame(addr uint64) symbol.Frame {
	code, err := n.python.Code(addr)
	switch {
	case errors.Is(err, stack.ErrBudget):
		return symbol.Frame{Reason: symbol.ReasonBudget}
	case err != nil: // the process has ended, or does not need it any more
		return symbol.Frame{Reason: symbol.ReasonExited}
	case code.Shim:
		return symbol.Frame{Name: pythonShim}
	}
	return symbol.Frame{
		Name: "py::" + code.Name + ":" + code.File, File: code.File, Line: code.FirstLine,
	}
}
