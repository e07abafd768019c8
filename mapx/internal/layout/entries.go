package layout

import "unsafe"

// Entries are the entries of a snapshot as memory: what handles them is then compiled once, and not
// for each pair of types.
type Entries struct {
	Data unsafe.Pointer
	N    int
	// Size is that of an entry, and Value the offset of the value in it; the key is at 0.
	Size, Value uintptr
}

// EntriesOf returns the entries of a list, with their values at an offset, as memory.
func EntriesOf[E any](list []E, value uintptr) Entries {
	var e E
	return Entries{
		Data: unsafe.Pointer(unsafe.SliceData(list)), N: len(list), Size: unsafe.Sizeof(e), Value: value,
	}
}

// Key returns where the key of entry i is.
func (e *Entries) Key(i int) unsafe.Pointer { return unsafe.Add(e.Data, uintptr(i)*e.Size) }

// ValueOf returns where the value of entry i is.
func (e *Entries) ValueOf(i int) unsafe.Pointer {
	return unsafe.Add(e.Data, uintptr(i)*e.Size+e.Value)
}

// SetSlice sets the slice at p, of any type, to the n elements at data.
func SetSlice(p, data unsafe.Pointer, n int) {
	*(*[]struct{})(p) = unsafe.Slice((*struct{})(data), n)
}
