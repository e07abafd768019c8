// Package arg has the types of the arguments of USDT probes, for package provider, which
// makes probes in a running program, and package static, which has them in the binary:
//
//	var request = static.New("myapp", "request", arg.Int64, arg.String)
//
// Fire of both takes a Go value for each type: any integer or bool for the integer types,
// those and any pointer for Pointer, a string or []byte for String and CString.
package arg
