// Package eval is the arithmetic of programs, which the folding of constants, the code
// generator and the interpreter share.
package eval
