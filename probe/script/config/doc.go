// Package config reads the config block of bpftrace's scripts, and checks scripts by it: for
// what bpftrace may change and has to be enabled, and for what it has given up.
//
//	c, warnings, err := config.Read(f)
//	if err != nil {
//		fmt.Print(syntax.Text(err))
//		return
//	}
//	fmt.Println(c.StackMode, c.MaxStrlen, warnings)
//
// It comes after imports and before macros are expanded. What the configuration says is for
// the passes behind it: types.Options takes it.
package config
