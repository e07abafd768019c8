// Package dwarf turns addresses into source positions and chains of inlined
// calls, by the DWARF 2 to 5 of an ELF file. It reads sections in place, finds
// the compilation unit of an address by the units' ranges, and decodes a unit's
// lines and functions when the first address in it is asked for, into compact
// tables. debug/dwarf serves another purpose: it builds every entry as a map of
// attributes, which is ten times slower here, and has no bounds.
//
// Entry and Rows are for those who look up functions' types, and the code of a source line.
//
// Section numbers in comments are those of the DWARF 5 standard.
package dwarf
