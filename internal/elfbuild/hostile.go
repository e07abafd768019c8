package elfbuild

import "debug/elf"

// Hostile returns programs that compute, and whose files ask whoever looks at them for
// gigabytes or minutes. The file of each ends with a hole of so many bytes.
func Hostile() (images [][]byte, holes []int64) {
	frames := func(data []byte, flags elf.SectionFlag) []byte {
		s := FrameSection(data)
		s.Flags |= flags
		return Program(s).Bytes()
	}
	table := func(s SymbolTable) []byte { return Program(s.Sections()...).Bytes() }
	head := Frames(ProgramText, 1)
	head = head[:len(head)-4]
	const n = 200_000
	const hole = 2 << 30
	images = [][]byte{
		frames(Compressed(head, 96<<20, head[len(head)-24:]...), elf.SHF_COMPRESSED),
		Program(SymbolTable{N: 1, Size: 64, Names: 4}.Compressed(64 << 20)...).Bytes(),
		Sparse(table(SymbolTable{N: 8, Names: 4}), 2, hole),
		frames(Frames(ProgramText, n), 0),
		frames(NestedCIEs(n/10, 2<<20), 0),
		table(SymbolTable{N: n, Size: 64, Names: 30000}),
		table(SymbolTable{N: n, Size: n, Shrink: 1, Names: 30000}),
		table(SymbolTable{N: n, Step: 1, Size: 2 * n, Shrink: 2, Names: 4}),
		table(SymbolTable{N: n, Step: 1 << 33, Size: 64, Names: 4}),
		ManyTables(2000, SymbolTable{N: 1000, Step: 16, Size: 16, Names: 8}),
	}
	holes = make([]int64, len(images))
	holes[2] = hole
	return images, holes
}
