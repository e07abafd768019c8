// Package usercode reads the code of user programs: where instructions and functions
// begin, what a Go function's stack check is, which code a source line became, and what
// DWARF says of a function's arguments.
package usercode
