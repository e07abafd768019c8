package stack

import (
	"github.com/borescope/borescope/internal/rawbtf"
	"github.com/borescope/borescope/stack/internal/rules"
)

// orcVersionByBTF looks the layout up in a kernel's type information: which bit-fields
// struct orc_entry has.
func orcVersionByBTF(b []byte) rules.ORCVersion {
	r, err := rawbtf.New(b)
	if err != nil {
		return rules.ORCUnknown
	}
	for _, off := range r.At[1:] {
		if r.Kind(off) == rawbtf.Struct && string(r.Name(r.Word(off))) == "orc_entry" {
			return orcVersionByMembers(r, off)
		}
	}
	return rules.ORCUnknown
}

// orcVersionByMembers tells the layouts by the fields "end" and "signal".
// Layout 4 has the fields of layout 3, and a header as well.
func orcVersionByMembers(r *rawbtf.Blob, off uint32) rules.ORCVersion {
	end, signal := false, false
	for i := range uint32(r.Vlen(off)) {
		switch string(r.Name(r.Word(off + rawbtf.TypeSize + 12*i))) {
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
