package rules

// PythonFrameSize is the number of bytes of a frame that are read at once: they contain all the
// fields that are used.
const PythonFrameSize = 72

// Python describes the places of a process's CPython frames: addresses, and offsets in
// CPython's structures.
type Python struct {
	Dev, Inode               uint64 // of the process's pid namespace
	Interpreters             uint64 // address of the list of interpreters
	InterpNext, Threads      uint64
	ThreadNext, ThreadID     uint64
	ThreadFrame              uint64
	ViaCFrame                bool // ThreadFrame is of a _PyCFrame, which points to the frame
	CFrameFrame              uint64
	FrameCode, FramePrevious uint64
	// Mark is the offset of the byte of a frame that marks where native code was entered. If
	// MarkIs is 0, any value but 0 does; else the value MarkIs.
	Mark, MarkIs uint64
}
