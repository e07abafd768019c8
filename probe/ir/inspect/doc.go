// Package inspect shows what a program of package ir became: BPF with its source in
// comments, as the verifier rewrote it, machine code, a graph of its control flow, and
// counts of what it is made of.
//
//	text, err := inspect.Disassemble(loaded, "sys_enter", inspect.LevelBPF, nil)
package inspect
