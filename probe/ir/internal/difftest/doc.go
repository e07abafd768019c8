// Package difftest contains the tests that cover several packages of ir at once: random
// programs run by the interpreter and by the kernel, arithmetic compared with gcc, golden
// instructions, and the operations of the language.
package difftest
