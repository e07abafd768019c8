// Package difftest holds the tests that ask several rooms of ir at once: random programs
// run by the interpreter and by the kernel, golden instructions, languages' texts.
package difftest
