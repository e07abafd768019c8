// Package check determines the type of every expression of a program, for one program of a
// plan, or reports mistakes. It also lays out maps.
package check
