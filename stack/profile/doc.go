// Package profile holds a profiler's result, counted stacks with names, and writes it in
// the forms that people and tools read. A Profile has samples with their frames; a Folded
// adds them up by name. Both are plain data. WriteSVG, WriteHTML, WriteFlameChart,
// WritePprof, WriteSpeedscope and WritePerfScript write them; Top and the text of a Folded
// show them in a terminal.
//
// The package walks no stacks and looks up no names: frames come from package stack, and
// names from package symbol, through the code that fills a Profile (package stack/collect
// does). It holds no resource, starts no goroutine and needs no Linux. Names are not
// trusted: every form escapes them for its readers.
package profile
