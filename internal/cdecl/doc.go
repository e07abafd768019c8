// Package cdecl reads C declarations, as scripts and small headers have them, into BTF
// types that are laid out as a C compiler lays them out:
//
//	d, err := cdecl.Parse("x.bt", text, &cdecl.Options{Resolve: kernelTypes})
//	…
//	s := d.Type(cdecl.Struct, "request").(*btf.Struct)
//	for _, m := range s.Members {
//		fmt.Println(m.Offset.Bytes(), m.Name)
//	}
//
// It knows structs, unions and enums, in one another and without names, bit fields, the
// attributes packed and aligned, arrays, pointers, functions, typedefs, constant
// expressions, and of the preprocessor macros without parameters, conditions and includes.
// Types that the text does not define are the caller's (Options.Resolve), and so are the
// texts of included files, and macros that are defined from outside. The typedefs that
// every program has from some header (u32, __be16, size_t, bool) need no declaration, and
// a definition needs no semicolon after it.
//
// What is no declaration is refused where it is, or skipped and reported
// (Options.SkipCode): function bodies, initial values, macros with parameters. #pragma
// pack, vectors and other things that change layouts are refused, never ignored.
//
// Layouts are those of the System V ABI as GCC and clang have it on 64-bit little-endian
// machines. They differ in two things by machine: whether char has a sign, and, on arm64,
// unnamed bit fields count for the alignment of their struct.
//
// Bounds: 16 MiB of text with all includes, 64 things in one another, 65,535 members or
// values, 256 MiB for a type, a million tokens of macros' expansions (4,096 for the value
// of one define, which else has none). Time and memory are by the size of the text.
package cdecl
