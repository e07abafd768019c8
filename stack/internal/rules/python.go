package rules

// PythonFrameSize covers the fields of a frame that are read: at once.
const PythonFrameSize = 72

// Python is where a process's CPython has its threads' frames: addresses, and
// offsets in its structures.
type Python struct {
	Dev, Inode               uint64 // of the process's pid namespace
	Interpreters             uint64 // address of the list of interpreters
	InterpNext, Threads      uint64
	ThreadNext, ThreadID     uint64
	ThreadFrame              uint64
	ViaCFrame                bool // ThreadFrame leads to a _PyCFrame, which has the frame
	CFrameFrame              uint64
	FrameCode, FramePrevious uint64
	// Mark is the byte of a frame that says where native code entered: where it is not
	// 0 if MarkIs is 0, else frames with this byte mark it.
	Mark, MarkIs uint64
}
