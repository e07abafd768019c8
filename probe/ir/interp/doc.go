// Package interp runs a program of package ir in Go: over recorded contexts and memory,
// without a kernel and without privileges, on any system.
//
//	in, err := interp.New(p, plan, 0)
//	m := &interp.Machine{Context: context, Comm: "bash"}
//	err = in.Run(m)
//	fmt.Println(m.Maps[hits])
//
// It follows the rules that compiled programs follow: random programs are run by both,
// and by the kernel, and compared.
package interp
