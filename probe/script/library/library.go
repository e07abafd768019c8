// Package library has the macros of bpftrace's library, in words of its own, that the language
// can say: assert, static_assert, is_err, strcontains.
//
//	err := syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library})
//
// What is wrong in one of them is said with its place in the library and the place of its use
// ("expanded from").
package library

import (
	_ "embed"

	"github.com/borescope/borescope/probe/script/syntax"
)

//go:embed library.bt
var text []byte

// Macros returns what finds the library's macros by their name. Their text is read when one is
// first asked for, so that scripts which use none pay nothing. It is for one goroutine at a
// time.
func Macros() func(name string) []*syntax.Macro {
	var macros map[string][]*syntax.Macro
	return func(name string) []*syntax.Macro {
		switch name {
		case "assert", "static_assert", "is_err", "strcontains":
		default:
			return nil
		}
		if macros == nil {
			macros = map[string][]*syntax.Macro{}
			f, _ := syntax.Parse("library.bt", text, nil) // a test reads it
			for _, d := range f.Decls {
				if m, ok := d.(*syntax.Macro); ok {
					macros[m.Name] = append(macros[m.Name], m)
				}
			}
		}
		return macros[name]
	}
}
