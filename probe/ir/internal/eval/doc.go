// Package eval implements the arithmetic of programs. The constant folder, the code generator
// and the interpreter share it.
package eval
