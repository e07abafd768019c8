// Package elfnotes reads ELF notes into typed values: from the sections and segments of
// executables, libraries and debug files, from core files, and from the raw streams that the
// kernel serves in /sys/kernel/notes and /sys/module/*/notes/*.
//
//	f, err := elfnotes.Open("/usr/bin/true")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	notes, errOf := f.Notes()
//	for n := range notes {
//		v, _ := n.Decode()
//		fmt.Println(n.Where, n.Owner, n.Kind(), v)
//	}
//	return errOf()
//
// Both classes and both byte orders are read, by the alignment rules that real files follow
// rather than those of the gABI (see All). The meaning of a note is a Value: an ID, a
// Properties, a PRStatus; a note that this package does not support stays readable as Raw.
//
// A malformed file yields the notes that can be read and an error with the place where reading
// stopped. No function panics on input, allocates more than a small multiple of the input's
// size, or takes more than linear time (except for one sort of the headers).
//
// The package needs no privileges and no particular kernel, has no state, and imports the
// standard library only.
package elfnotes
