package elffile

import "fmt"

// Names reads the strings of a table that many refer to, each by its offset. Strings may
// lie over each other, so that a million symbols all have names of 64 KiB in a table of as
// much: no more is looked through than four times of what the table has, and 1 MiB, where
// linkers' tables come to 1.2 times.
type Names struct {
	tab  []byte
	left int
}

// NewNames returns the names in a table of strings.
func NewNames(tab []byte) *Names { return &Names{tab, 4*len(tab) + 1<<20} }

// At returns the string at an offset, as a slice of the table, nil where there is none.
// The error says that too much was looked through, and then each time.
func (n *Names) At(off uint64) ([]byte, error) {
	if n.left < 0 {
		return nil, fmt.Errorf("names that lie over each other: %w", ErrTooLarge)
	}
	b := String(n.tab, off)
	if n.left -= len(b) + 1; b == nil { // it may not end
		n.left -= min(maxNameLen, len(n.tab)-int(min(off, uint64(len(n.tab)))))
	}
	return b, nil
}

// IsString reports whether the string at an offset of a table is s, and looks through no
// more of it.
func IsString(tab []byte, off uint64, s string) bool {
	n := uint64(len(tab))
	return off < n && uint64(len(s)) < n-off && string(tab[off:off+uint64(len(s))]) == s &&
		tab[off+uint64(len(s))] == 0
}
