// Package usercode analyses the code of user programs: where instructions and functions begin,
// the stack check at the start of a Go function, the code of a source line, and the types of a
// function's arguments in DWARF.
package usercode
