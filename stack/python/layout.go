package python

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// layout says where things lie in the structures of one version of CPython
// built for 64 bits, in bytes.
type layout struct {
	interpreters uint64 // _PyRuntimeState.interpreters.head

	interpNext, interpThreads uint64 // PyInterpreterState

	threadNext, threadID uint64 // PyThreadState; threadID is native_thread_id
	threadFrame          uint64 // current_frame, or cframe where viaCFrame is set
	viaCFrame            bool
	cframeFrame          uint64 // _PyCFrame.current_frame

	frameCode, framePrevious, frameInstr, frameOwner uint64 // _PyInterpreterFrame
	// is_entry; 0 where an entry is a frame of its own
	frameEntry uint64

	codeFile, codeName, codeQualname, codeLines, codeFirstLine, codeInstrs uint64 // PyCodeObject

	objectType             uint64 // PyObject.ob_type
	bytesSize, bytesData   uint64 // PyBytesObject
	textLength, textState  uint64 // PyASCIIObject
	textASCII, textCompact uint64 // sizes of PyASCIIObject and PyCompactUnicodeObject
}

// The offsets in the headers of 3.11 and 3.12 (Include/internal/pycore_runtime.h,
// pycore_interp.h, pycore_frame.h, cpython/pystate.h, cpython/code.h), which do
// not change within a version: TestPython compares what they give with the interpreter itself.
var layouts = map[int]layout{
	11: {
		interpreters: 40, interpNext: 0, interpThreads: 16,
		threadNext: 8, threadID: 160, threadFrame: 56, viaCFrame: true, cframeFrame: 8,
		frameCode: 32, framePrevious: 48, frameInstr: 56, frameEntry: 68, frameOwner: 69,
		codeFile: 112, codeName: 120, codeQualname: 128, codeLines: 136, codeFirstLine: 72,
		codeInstrs: 184, objectType: 8, bytesSize: 16, bytesData: 32, textLength: 16, textState: 32,
		textASCII: 48, textCompact: 72,
	},
	12: {
		interpreters: 40, interpNext: 0, interpThreads: 72,
		threadNext: 8, threadID: 144, threadFrame: 56, viaCFrame: true, cframeFrame: 0,
		frameCode: 0, framePrevious: 8, frameInstr: 56, frameOwner: 70,
		codeFile: 112, codeName: 120, codeQualname: 128, codeLines: 136, codeFirstLine: 68,
		codeInstrs: 192, objectType: 8, bytesSize: 16, bytesData: 32, textLength: 16, textState: 32,
		textASCII: 40, textCompact: 56,
	},
}

// ownedByCStack is FRAME_OWNED_BY_CSTACK, of the frames that 3.12 and 3.13 put
// where native code enters the interpreter.
const ownedByCStack = 3

// Where 3.13 keeps its own offsets, in struct _Py_DebugOffsets
// (Include/internal/pycore_runtime.h) at the beginning of _PyRuntime.
const (
	cookie              = "xdebugpy"
	debugOffVersion     = 8
	debugOffFree        = 16
	debugOffInterps     = 40
	debugOffInterpNext  = 64
	debugOffThreads     = 72
	debugOffThreadNext  = 168
	debugOffThreadFrame = 184
	debugOffThreadID    = 200
	debugOffPrevious    = 232
	debugOffExecutable  = 240
	debugOffInstr       = 248
	debugOffOwner       = 264
	debugOffFile        = 280
	debugOffName        = 288
	debugOffQualname    = 296
	debugOffLines       = 304
	debugOffFirstLine   = 312
	debugOffInstrs      = 344
	debugOffType        = 360
	debugOffBytesSize   = 520
	debugOffBytesData   = 528
	debugOffTextState   = 544
	debugOffTextLength  = 552
	debugOffTextASCII   = 560
	debugOffSize        = 568
)

// layoutOf returns the layout of a version: the recorded one, or what the
// interpreter itself says.
func layoutOf(version uint64, mem stack.Memory, runtime uint64) (layout, error) {
	major, minor := int(version>>24&0xff), int(version>>16&0xff)
	unsupported := func(what string) error {
		return fmt.Errorf("CPython %d.%d%s: frames are read of 3.11 to 3.13: %w", major, minor, what,
			errors.ErrUnsupported)
	}
	if l, ok := layouts[minor]; ok && major == 3 {
		return l, nil
	}
	if major != 3 || minor != 13 {
		return layout{}, unsupported("")
	}
	var b [debugOffSize]byte
	if err := mem.ReadMemory(b[:], runtime); err != nil {
		return layout{}, fmt.Errorf("CPython's debug offsets: %w", err)
	}
	at := func(off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }
	switch {
	case string(b[:8]) != cookie || at(debugOffVersion)>>16 != version>>16:
		return layout{}, errors.New("CPython 3.13: no debug offsets at _PyRuntime")
	case at(debugOffFree) != 0:
		return layout{}, unsupported(" without the GIL")
	}
	l := layout{
		interpreters: at(debugOffInterps), interpNext: at(debugOffInterpNext),
		interpThreads: at(debugOffThreads), threadNext: at(debugOffThreadNext),
		threadID: at(debugOffThreadID), threadFrame: at(debugOffThreadFrame),
		frameCode: at(debugOffExecutable), framePrevious: at(debugOffPrevious),
		frameInstr: at(debugOffInstr), frameOwner: at(debugOffOwner), codeFile: at(debugOffFile),
		codeName: at(debugOffName), codeQualname: at(debugOffQualname), codeLines: at(debugOffLines),
		codeFirstLine: at(debugOffFirstLine), codeInstrs: at(debugOffInstrs),
		objectType: at(debugOffType), bytesSize: at(debugOffBytesSize), bytesData: at(debugOffBytesData),
		textLength: at(debugOffTextLength), textState: at(debugOffTextState),
		textASCII: at(debugOffTextASCII),
	}
	// Not among the offsets: a PyCompactUnicodeObject has two words more.
	l.textCompact = l.textASCII + 16
	if err := l.check(); err != nil {
		return layout{}, fmt.Errorf("CPython 3.13: %w", err)
	}
	return l, nil
}

// Bounds of the structures' sizes, in bytes: of a state far above, of a code object and of
// other objects above what any version has.
const (
	maxState  = 1 << 20 // _PyRuntimeState, PyInterpreterState, PyThreadState
	codeSize  = 256     // PyCodeObject without its instructions
	maxObject = 128     // PyBytesObject, PyCompactUnicodeObject without their text
)

// check returns an error for offsets that lead out of their structure. They are read from the
// process, which chooses them.
func (l *layout) check() error {
	for _, s := range []struct {
		of      string
		size    uint64
		offsets []uint64 // of 8 bytes each
	}{
		{"the runtime", maxState, []uint64{l.interpreters}},
		{"an interpreter", maxState, []uint64{l.interpNext, l.interpThreads}},
		{"a thread", maxState, []uint64{l.threadNext, l.threadID, l.threadFrame}},
		{"a frame", rules.PythonFrameSize, []uint64{l.frameCode, l.framePrevious, l.frameInstr}},
		{"a frame", rules.PythonFrameSize + 7, []uint64{l.frameOwner}}, // of 1 byte
		{"a code object", codeSize, []uint64{
			l.codeFile, l.codeName, l.codeQualname, l.codeLines, l.codeFirstLine, l.objectType,
		}},
		{"a code object", codeSize + 8, []uint64{l.codeInstrs}}, // what follows it
		{"an object", maxObject, []uint64{
			l.bytesSize, l.bytesData, l.textLength, l.textState, l.textASCII, l.textCompact,
		}},
	} {
		for _, off := range s.offsets {
			if off > s.size-8 {
				return fmt.Errorf("unlikely debug offset of %s: %#x", s.of, off)
			}
		}
	}
	return nil
}
