package stacktest

import (
	"encoding/binary"
	"slices"
)

// ORCEntry returns an entry of .orc_unwind.
func ORCEntry(sp, bp int16, flags uint16) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(sp))
	b = binary.LittleEndian.AppendUint16(b, uint16(bp))
	return binary.LittleEndian.AppendUint16(b, flags)
}

// KernelCode is the address of the code that ORC describes, KernelStack that of its stacks.
const (
	KernelCode  = 0xffffffff81000000
	KernelStack = 0xffff888000000000
)

// ORC returns the tables for 8 KiB of code in the form of rules.ORC3: .orc_unwind_ip and
// .orc_unwind.
func ORC() (ip, entries []byte) {
	rows := []struct {
		addr  uint32
		entry []byte
	}{
		{0x000, ORCEntry(0, 0, 0x100)},           // end of the stack
		{0x100, ORCEntry(8, 0, 0x205)},           // a call, nothing pushed
		{0x200, ORCEntry(16, -16, 0x215)},        // rbp pushed
		{0x300, ORCEntry(16, -16, 0x214)},        // rbp is the frame
		{0x400, ORCEntry(0, 0, 0xb05)},           // an exception's registers
		{0x500, ORCEntry(0, 0, 0xc05)},           // the processor's frame
		{0x600, ORCEntry(0, 0, 0x000)},           // undefined
		{0x700, ORCEntry(8, 0, 0x209)},           // another stack: *(sp) + 8
		{0x800, ORCEntry(0, 0, 0x206)},           // r10
		{0x900, ORCEntry(0, 0, 0x70f)},           // nonsense
		{0xa00, ORCEntry(0, 0, 0x205)},           // no progress
		{0xb00, ORCEntry(8, 0, 0x205)},           // two entries for one address: the last counts
		{0xb00, ORCEntry(24, 0, 0x205)},          //
		{0xb00, ORCEntry(0, 0, 0)},               // unless the last is the end of a function
		{0xc00, slices.Clone(ORCEntry(0, 0, 0))}, //
	}
	for i, r := range rows {
		ip = binary.LittleEndian.AppendUint32(ip, r.addr-uint32(4*i))
		entries = append(entries, r.entry...)
	}
	return ip, entries
}
