package elffile

import "fmt"

// Names reads strings of a string table by offset. Strings may overlap, so that a million
// symbols all have names of 64 KiB in a table of that size. Therefore Names reads at most four
// times the table's size plus 1 MiB. The names in linkers' tables add up to 1.2 times the
// size.
type Names struct {
	tab  []byte
	left int
}

// NewNames returns the names in a string table.
func NewNames(tab []byte) *Names { return &Names{tab, 4*len(tab) + 1<<20} }

// At returns the string at an offset, as a slice of the table, or nil if there is none. It
// returns an error when it has read too much, and from then on always.
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

// IsString reports whether the string at an offset of a table is s. It reads no more of the
// table than that.
func IsString(tab []byte, off uint64, s string) bool {
	n := uint64(len(tab))
	return off < n && uint64(len(s)) < n-off && string(tab[off:off+uint64(len(s))]) == s &&
		tab[off+uint64(len(s))] == 0
}
