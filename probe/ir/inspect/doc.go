// Package inspect shows the code of a program of package ir: BPF with its source in comments,
// BPF as the verifier rewrote it, and machine code, with a graph of its control flow and
// counts of its instructions.
//
//	text, err := inspect.Disassemble(loaded, "sys_enter", inspect.LevelBPF, nil)
package inspect
