// Package output prints what scripts print, in bpftrace's text and JSON: the values of records and
// maps, whose types are a script's and are known at run time only.
//
//	out := output.New(os.Stdout, nil)
//	value := output.Decode(typ, raw, nil)
//	err := out.Value(value)
//
// Values are Go's: bool, int64, uint64, string, and [Tuple], [List], [Record], [Symbol] and
// [Buffer] for what has parts or a name. Text that traced processes chose is printed with a '?' in
// place of each character that a terminal acts on (Options.Raw prints it as it is).
package output
