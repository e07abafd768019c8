// Package interp runs a program of package ir in Go, with recorded contexts and memory,
// without a kernel or privileges, on any system.
//
//	in, err := interp.New(p, plan, 0)
//	m := &interp.Machine{Context: context, Comm: "bash"}
//	err = in.Run(m)
//	fmt.Println(m.Maps[hits])
//
// It follows the rules of compiled programs. Tests run random programs in the interpreter and
// in the kernel, and compare the results.
package interp
