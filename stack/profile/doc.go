// Package profile has what a profiler hands on: stacks with names, counted, and the forms
// that people and tools read them in. A Profile has samples with their frames; a Folded
// adds them up by name. Both are plain data, which WriteSVG, WriteHTML, WriteFlameChart,
// WritePprof, WriteSpeedscope and WritePerfScript write, and Top and the text of a Folded
// show in a terminal.
//
// It walks no stacks and looks up no names: frames are package stack's, and names come from
// package symbol through whoever fills a Profile (package stack/collect does). It holds no
// resource, starts no goroutine and needs no Linux. Names may be anybody's: every form
// escapes them for its readers.
package profile
