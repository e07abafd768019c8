// Package cdecl parses C declarations, as in scripts and small headers, into BTF types with
// the layout of a C compiler:
//
//	d, err := cdecl.Parse("x.bt", text, &cdecl.Options{Resolve: kernelTypes})
//	…
//	s := d.Type(cdecl.Struct, "request").(*btf.Struct)
//	for _, m := range s.Members {
//		fmt.Println(m.Offset.Bytes(), m.Name)
//	}
//
// It supports structs, unions and enums, nested and without names, bit fields, the attributes
// packed and aligned, arrays, pointers, functions, typedefs and constant expressions; and of
// the preprocessor macros without parameters, conditions and includes. The caller provides
// types that the text does not define (Options.Resolve), the texts of included files, and
// macros that are defined outside. The typedefs that every program gets from some header (u32,
// __be16, size_t, bool) need no declaration, and a definition needs no semicolon after it.
//
// Text that is not a declaration is an error, or is skipped and reported (Options.SkipCode):
// function bodies, initial values, macros with parameters. #pragma pack, vectors and other
// features that change layouts are errors; they are never ignored.
//
// Layouts are those of the System V ABI as implemented by GCC and clang on 64-bit
// little-endian machines. They depend on the machine in two ways: whether char is signed, and,
// on arm64, whether unnamed bit fields affect the alignment of their struct.
//
// Limits: 16 MiB of text with all includes, nesting of 64, 65,535 members or values, 256 MiB
// for a type, a million tokens of macro expansions (4,096 for the value of one define, which
// otherwise has none). Time and memory are proportional to the size of the text.
package cdecl
