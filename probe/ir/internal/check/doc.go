// Package check gives every expression of a program a type, for one program of a plan,
// or says what is wrong with it; and lays out maps.
package check
