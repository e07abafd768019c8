package stack

import (
	"bytes"
	"encoding/binary"

	"github.com/borescope/borescope/stack/internal/rules"
)

// orcVersionByBTF looks the layout up in a kernel's type information: which
// bit-fields struct orc_entry has. It reads no more of BTF than that needs
// (Documentation/bpf/btf.rst).
func orcVersionByBTF(b []byte) rules.ORCVersion {
	const magic, headerLen = 0xeb9f, 24
	le := binary.LittleEndian
	if len(b) < headerLen || le.Uint16(b) != magic {
		return rules.ORCUnknown
	}
	hdr := uint64(le.Uint32(b[4:]))
	part := func(off, n uint32) []byte {
		from := hdr + uint64(off)
		if from+uint64(n) > uint64(len(b)) {
			return nil
		}
		return b[from : from+uint64(n)]
	}
	types, strs := part(le.Uint32(b[8:]), le.Uint32(b[12:])), part(le.Uint32(b[16:]), le.Uint32(b[20:]))
	name := func(off uint32) string {
		if uint64(off) >= uint64(len(strs)) {
			return ""
		}
		s, _, _ := bytes.Cut(strs[off:], []byte{0})
		return string(s)
	}
	for len(types) >= 12 {
		info := le.Uint32(types[4:])
		kind, vlen := info>>24&31, uint64(info&0xffff)
		extra, ok := btfExtra(kind, vlen)
		if !ok || 12+extra > uint64(len(types)) {
			return rules.ORCUnknown
		}
		const kindStruct = 4
		if kind == kindStruct && name(le.Uint32(types)) == "orc_entry" {
			return orcVersionByMembers(types[12:12+extra], name)
		}
		types = types[12+extra:]
	}
	return rules.ORCUnknown
}

// btfExtra is the size of what follows a type's first twelve bytes.
func btfExtra(kind uint32, vlen uint64) (uint64, bool) {
	switch kind {
	case 1, 14, 17: // INT, VAR, DECL_TAG
		return 4, true
	case 2, 7, 8, 9, 10, 11, 12, 16, 18: // PTR, FWD, TYPEDEF, qualifiers, FUNC, FLOAT, TYPE_TAG
		return 0, true
	case 3: // ARRAY
		return 12, true
	case 4, 5, 15, 19: // STRUCT, UNION, DATASEC, ENUM64
		return 12 * vlen, true
	case 6, 13: // ENUM, FUNC_PROTO
		return 8 * vlen, true
	}
	return 0, false
}

// orcVersionByMembers tells the layouts by the fields "end" and "signal".
// Layout 4 has the fields of layout 3, and a header as well.
func orcVersionByMembers(members []byte, name func(uint32) string) rules.ORCVersion {
	end, signal := false, false
	for ; len(members) >= 12; members = members[12:] {
		switch name(binary.LittleEndian.Uint32(members)) {
		case "end":
			end = true
		case "signal":
			signal = true
		}
	}
	switch {
	case end && signal:
		return rules.ORC2
	case end:
		return rules.ORC1
	case signal:
		return rules.ORC3
	}
	return rules.ORCUnknown
}
