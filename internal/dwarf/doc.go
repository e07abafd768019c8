// Package dwarf converts addresses to source positions and chains of inlined calls, with the
// DWARF 2 to 5 of an ELF file. It reads sections in place, finds the compilation unit of an
// address by the units' ranges, and decodes a unit's lines and functions into compact tables
// when the first address in it is looked up. debug/dwarf has another purpose: it builds every
// entry as a map of attributes, which is ten times slower for this, and has no bounds.
//
// Entry and Rows are for looking up the types of functions and the code of a source line.
//
// Section numbers in comments are those of the DWARF 5 standard.
package dwarf
