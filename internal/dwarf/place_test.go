package dwarf

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// unitFor returns a unit of some version, for reading its location lists.
func unitFor(version uint16, loc []byte) *unit {
	d := &Data{loc: loc, loclists: loc}
	return &unit{d: d, version: version, addrSize: 8, offSize: 4, low: 0x1000}
}

// TestExpressions: places by the expressions that compilers write.
func TestExpressions(t *testing.T) {
	for _, tt := range []struct {
		name string
		expr []byte
		want Place
	}{
		{"nothing", nil, Place{Kind: PlaceGone}},
		{"reg5", []byte{0x55}, Place{Kind: PlaceRegister, Reg: 5}},
		{"regx 40", []byte{0x90, 40}, Place{Kind: PlaceRegister, Reg: 40}},
		{"breg5 8", []byte{0x75, 8}, Place{Kind: PlaceMemory, Reg: 5, Offset: 8}},
		{"breg4 -1; stack_value", []byte{0x74, 0x7f, 0x9f}, Place{Kind: PlaceSum, Reg: 4, Offset: -1}},
		{"entry_value(reg5); stack_value", []byte{0xa3, 1, 0x55, 0x9f}, Place{Kind: PlaceRegister, Reg: 5}},
		{
			"GNU_entry_value(reg5); plus_uconst 3; stack_value",
			[]byte{0xf3, 1, 0x55, 0x23, 3, 0x9f},
			Place{Kind: PlaceSum, Reg: 5, Offset: 3},
		},
		{"const1u 42; stack_value", []byte{0x08, 42, 0x9f}, Place{Kind: PlaceConst, Offset: 42}},
		{"const1s -3; stack_value", []byte{0x09, 0xfd, 0x9f}, Place{Kind: PlaceConst, Offset: -3}},
		{"lit7; stack_value", []byte{0x37, 0x9f}, Place{Kind: PlaceConst, Offset: 7}},
		{"implicit_value 4", []byte{0x9e, 4, 1, 2, 0, 0}, Place{Kind: PlaceConst, Offset: 0x201}},
		{"call_frame_cfa; lit8; plus", []byte{0x9c, 0x38, 0x22}, Place{Kind: PlaceCFA, Offset: 8}},
		{"fbreg -24, without a base", []byte{0x91, 0x68}, Place{Kind: PlaceFrame}},
		{"fbreg -24; deref", []byte{0x91, 0x68, 0x06}, Place{Kind: PlaceFrame, Deref: true}},
		{"implicit_pointer", []byte{0xa0, 0, 0, 0, 0, 0}, Place{Kind: PlaceGone}},
		{"GNU_parameter_ref", []byte{0xfa, 0, 0, 0, 0, 0x9f}, Place{Kind: PlaceGone}},
		{
			"reg5; piece 8; piece 4; lit1; stack_value; piece 4",
			[]byte{0x55, 0x93, 8, 0x93, 4, 0x31, 0x9f, 0x93, 4},
			Place{Pieces: []Piece{
				{8, Place{Kind: PlaceRegister, Reg: 5}}, {4, Place{Kind: PlaceGone}}, {4, Place{Kind: PlaceConst, Offset: 1}},
			}},
		},
		{"reg5; piece 8; reg4, without a piece", []byte{0x55, 0x93, 8, 0x54}, Place{Kind: PlaceOther, Op: 0x93}},
		{
			"breg5; const2u 0xffff; and; stack_value",
			[]byte{0x75, 0, 0x0a, 0xff, 0xff, 0x1a, 0x9f},
			Place{Kind: PlaceRegister, Reg: 5, Bits: 16},
		},
		{"breg5; const1u 6; and; stack_value", []byte{0x75, 0, 8, 6, 0x1a, 0x9f}, Place{Kind: PlaceOther, Op: 0x1a}},
		{"breg5; deref; stack_value", []byte{0x75, 0, 0x06, 0x9f}, Place{Kind: PlaceOther, Op: 0x06}},
		{"breg5; neg; stack_value", []byte{0x75, 0, 0x1f, 0x9f}, Place{Kind: PlaceOther, Op: 0x1f}},
		{"a cut breg5", []byte{0x75}, Place{Kind: PlaceOther, Op: 0x75}},
		{"addr", []byte{0x03, 1, 2, 3, 4, 5, 6, 7, 8, 0x9f}, Place{Kind: PlaceOther, Op: 0x03}},
	} {
		u := unitFor(5, nil)
		if got := u.evaluate(tt.expr, nil); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestLocationLists: of the entries of a list that one counts which begins at the address, even
// if it is empty, else that which contains it.
func TestLocationLists(t *testing.T) {
	old := func(entries ...any) (b []byte) {
		for _, e := range entries {
			switch v := e.(type) {
			case int:
				b = binary.LittleEndian.AppendUint64(b, uint64(v))
			case byte:
				b = append(b, 1, 0, v)
			}
		}
		return b
	}
	for _, tt := range []struct {
		name    string
		version uint16
		list    []byte
		want    byte // 0: none
	}{
		{"old", 4, old(0, 4, byte(0x55), 4, 8, byte(0x53), 0, 0), 0x55},
		{"old, with a base", 4, old(-1, 0x2000, 0, 4, byte(0x53), -1, 0xff0, 0x10, 0x20, byte(0x54), 0, 0), 0x54},
		{"old, later", 4, old(4, 8, byte(0x53), 0, 0), 0},
		{"old, around", 4, old(-1, 0xff0, 0, 0x20, byte(0x53), 0, 0), 0x53},
		{"old, cut", 4, old(0, 4)[:12], 0},
		{"offset pairs", 5, []byte{4, 0, 4, 1, 0x55, 4, 4, 8, 1, 0x53, 0}, 0x55},
		{"empty, with views", 5, []byte{9, 0, 1, 9, 1, 0, 4, 0, 0, 1, 0x55, 4, 0, 8, 1, 0x53, 0}, 0x55},
		{"start and length", 5, []byte{8, 0, 0x10, 0, 0, 0, 0, 0, 0, 4, 1, 0x55, 0}, 0x55},
		{"start and end", 5, []byte{7, 0, 0x10, 0, 0, 0, 0, 0, 0, 4, 0x10, 0, 0, 0, 0, 0, 0, 1, 0x55, 0}, 0x55},
		{"a base", 5, []byte{6, 0, 0x20, 0, 0, 0, 0, 0, 0, 4, 0, 4, 1, 0x55, 0}, 0},
		{"by default", 5, []byte{5, 1, 0x55, 4, 4, 8, 1, 0x53, 0}, 0x55},
		{"not by default", 5, []byte{5, 1, 0x53, 4, 0, 8, 1, 0x55, 0}, 0x55},
		{"later", 5, []byte{4, 4, 8, 1, 0x53, 0}, 0},
		{"unknown kind", 5, []byte{77, 4, 0, 8, 1, 0x53, 0}, 0},
		{"cut", 5, []byte{4, 0, 8, 9, 0x53}, 0},
	} {
		b, ok := unitFor(tt.version, tt.list).location(value{form: formSecOffset}, 0x1000)
		if ok != (tt.want != 0) || ok && (len(b) != 1 || b[0] != tt.want) {
			t.Errorf("%s: %x %v, want %#x", tt.name, b, ok, tt.want)
		}
	}
	u := unitFor(5, []byte{4, 4, 8, 1, 0x53, 0})
	for range 10 {
		u.location(value{form: formSecOffset}, 0x1000)
	}
	if _, ok := u.location(value{form: formSecOffset}, 0x1004); ok {
		t.Error("a list may be read by any number of entries")
	}
}
