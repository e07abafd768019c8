package stack

// Memory reads the memory of a target: a live process, a core file, the stack bytes of a
// perf sample, a captured blob. It is not io.ReaderAt because kernel addresses are negative
// as int64.
//
// ReadMemory fills dst with the len(dst) bytes at addr or returns an error; on
// an error the contents of dst are not defined. Implementations in this module
// are safe for concurrent use unless they say otherwise.
type Memory interface {
	ReadMemory(dst []byte, addr uint64) error
}
