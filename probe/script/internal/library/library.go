// Package library has those macros of bpftrace's library that the language itself can
// express: assert, static_assert, is_err, strcontains. Their text is not bpftrace's. The others
// are functions and builtins that the passes know.
//
//	err := syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library})
//
// Errors in a macro have both the place in the library and the place of the macro's use
// ("expanded from").
package library

import (
	_ "embed"

	"github.com/borescope/borescope/probe/script/syntax"
)

//go:embed library.bt
var text []byte

// name is the name of bpftrace's library in messages.
const name = "stdlib/base.bt"

// Macros returns a function that returns the library's macros of a name, nil if it has none.
// It parses the library at the first use of a macro, so that scripts without them have no
// cost. The function must not be called from several goroutines at a time.
func Macros() func(name string) []*syntax.Macro {
	var macros map[string][]*syntax.Macro
	return func(macro string) []*syntax.Macro {
		switch macro {
		case "assert", "static_assert", "is_err", "strcontains":
		default:
			return nil
		}
		if macros == nil {
			macros = map[string][]*syntax.Macro{}
			f, _ := syntax.Parse(name, text, nil) // a test parses it
			for _, d := range f.Decls {
				if m, ok := d.(*syntax.Macro); ok {
					macros[m.Name] = append(macros[m.Name], m)
				}
			}
		}
		return macros[macro]
	}
}
