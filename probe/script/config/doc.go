// Package config reads the config block of bpftrace's scripts. It checks scripts for unstable
// features that the configuration does not enable, and for deprecated ones.
//
//	c, warnings, err := config.Read(f, nil)
//	if err != nil {
//		fmt.Print(syntax.ErrorText(err))
//		return
//	}
//	fmt.Println(c.StackMode, c.MaxStrlen, warnings)
//
// Environment variables such as BPFTRACE_MAX_PROBES precede the block, if [Options] has a
// function for them.
//
// Read the configuration after the imports and before syntax.Expand, as script.Check does. Pass
// it to the later steps with types.Options and to System.Expand; script.Checked has it.
package config
