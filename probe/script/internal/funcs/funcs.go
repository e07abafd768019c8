// Package funcs is the table of the builtins and functions of bpftrace's language: what each
// name takes, what it is, and where it may be used. The passes over scripts ask it; what a row
// cannot say, such as a rule of one function about the values of its arguments, they have in
// code. A function that needs no such rule is its row.
package funcs

import (
	"slices"
	"strings"
)

// Kinds of values, as types.Kind's texts name them.
const (
	Integer = "int"
	String  = "string"
	Pointer = "pointer"
	Clock   = "timestamp_mode" // monotonic, boot and so on
)

// Value is a type of a result.
type Value struct {
	Kind     string // "" if a function has no result or its type depends on more than its name
	Size     uint64 // in bytes
	Signed   bool   // of an integer
	Mode     string // of a time: boot
	Kernel   bool   // it is an address of the kernel
	Internal bool   // it is stored by the program, not read from memory
}

// Int returns a signed integer of a size in bytes.
func Int(size uint64) Value { return Value{Kind: Integer, Size: size, Signed: true} }

// Uint returns an unsigned integer of a size in bytes.
func Uint(size uint64) Value { return Value{Kind: Integer, Size: size} }

// Text returns a string of a size in bytes.
func Text(size uint64) Value { return Value{Kind: String, Size: size} }

// Bool returns a truth value.
func Bool() Value { return Value{Kind: "bool", Size: 1} }

// Void returns the result of a function that is called for its effect.
func Void() Value { return Value{Kind: "void"} }

// Arg describes an argument. If Kind is "", any type is allowed.
type Arg struct {
	Kind    string
	Literal bool
}

// Row is a name of the language. Its zero fields say that nothing is special.
type Row struct {
	Name string
	// Since is the version of bpftrace that brought the name; 0.8, the first of which that is
	// known, or an earlier one.
	Since string
	// Bare: it is a builtin that is written without parentheses, or with empty ones.
	Bare bool
	// Library: bpftrace's library defines it, so that a script's macro may take its place.
	Library bool
	// Macro: it is one of the library's macros with parameters, which has bpftrace's error for
	// macros if their number is wrong.
	Macro bool
	// Least and Most are the numbers of arguments of a call, with the map and the key that an
	// aggregation gets. If Most is 0, they are checked elsewhere, or it is no function.
	Least, Most int
	Args        []Arg  // the arguments with requirements
	Value       Value  // of the builtin, and of a call without arguments
	Result      Value  // of a call
	Aggregation string // the kind of a map's values that it makes
	Map         bool   // the first argument is a map itself, not its value
	Format      bool   // the first argument is a format for the others
	Unsafe      bool   // it changes the system
	Probes      string // the probes in which it may be used, separated by spaces; "" is all
	Own         bool   // its own check refuses it in other probes, with a text of its own
}

// Plain returns a builtin's name without the prefix that it has in bpftrace's library.
func Plain(name string) string { return strings.TrimPrefix(name, "__builtin_") }

// Of returns the row of a name, nil if the language does not have it. A name may have the
// prefix "__builtin_". The caller must not change it.
func Of(name string) *Row {
	i, ok := slices.BinarySearchFunc(table, Plain(name), func(r Row, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !ok {
		return nil
	}
	return &table[i]
}

// All returns the rows, sorted by name. The caller must not change them.
func All() []Row { return table }

// In reports whether it may be used in probes of a provider. It may if r is nil.
func (r *Row) In(provider string) bool {
	return r == nil || r.Probes == "" ||
		slices.Contains(strings.Split(r.Probes, " "), provider)
}
