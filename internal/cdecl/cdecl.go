package cdecl

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// What is read is bounded, so that memory and time are by the size of the text.
const (
	maxText     = 16 << 20  // bytes of the text and all that it includes
	maxExpanded = 1 << 20   // tokens that macros expand to
	maxDefine   = 4 << 10   // tokens of a define's value
	maxIncludes = 64        // files that include one another
	maxNesting  = 64        // declarators, structs, expressions in one another
	maxDepth    = 128       // types made of types, structs by pointer not counted
	maxMembers  = 1<<16 - 1 // of a struct, of an enum, parameters: BTF's own bound
	maxSize     = 256 << 20 // bytes of a type, so that bit offsets stay far from 32 bits
)

// Kind is a kind of type that has a name.
type Kind uint8

// The kinds of types: struct, union and enum tags share one space of names, typedefs
// have another.
const (
	Struct Kind = iota
	Union
	Enum
	Typedef
)

// String is the keyword of C.
func (k Kind) String() string { return [...]string{"struct", "union", "enum", "typedef"}[k&3] }

// Options say what Parse finds around the text; nil is none of it.
type Options struct {
	// Arch is the machine that types are laid out for, as GOARCH spells it; "" is
	// this program's. 64-bit little-endian ones are known.
	Arch string
	// Line and Column say where in its file the text begins, from 1; 0 is 1.
	Line, Column int
	// Resolve finds a type that the text does not define, such as a struct of the
	// kernel by its BTF. It returns a Struct, Union, Enum or Typedef of the kind that is
	// asked for, or nil if there is none. It is asked once for each name. BTF does not say
	// how a type is aligned: by what its members need, unless their places show less.
	Resolve func(kind Kind, name string) (btf.Type, error)
	// Macro is the text of a macro that is defined before the text begins, as a
	// compiler's -D does. It is asked once for each name that the text has; then what
	// a compiler defines itself (__LP64__, __x86_64__, …) is looked at.
	Macro func(name string) (text string, ok bool)
	// Constant is the value of a name in a constant expression that the text neither
	// defines nor enumerates.
	Constant func(name string) (value int64, ok bool)
	// Include returns the text of an included file; nil for one that is left out. It
	// may set the Include's File. Without it all are left out.
	Include func(i *Include) ([]byte, error)
	// SkipCode skips what is no declaration: function bodies, initial values of
	// variables, macros with parameters. Else these are errors.
	SkipCode bool
}

// Decls are the declarations of a text.
type Decls struct {
	// Types are the types that the text defines under a name, in its order.
	Types []Type
	// Constants are the enumerators, in order.
	Constants []Constant
	// Defines are the macros without parameters that are in force at the end, in the
	// order of their first definition.
	Defines []Define
	// Includes are the files that the text, or a text that it includes, asks for.
	Includes []Include
	// Skipped is what SkipCode had skipped.
	Skipped []Skipped

	byName map[tag]btf.Type
}

// Type is a type that the text defines: a *btf.Struct, *btf.Union, *btf.Enum or
// *btf.Typedef.
type Type struct {
	Kind Kind
	Name string
	Type btf.Type
	Pos  Pos
}

// Constant is an enumerator.
type Constant struct {
	Name  string
	Value Value
	Enum  *btf.Enum
	Pos   Pos
}

// Define is a macro without parameters.
type Define struct {
	Name string
	// Text is what it stands for.
	Text string
	// Value is what Text evaluates to, where it is a constant expression of
	// integers; else Integer is false.
	Value   Value
	Integer bool
	// Str is what Text says, where it is made of texts alone; else String is false.
	Str    string
	String bool
	Pos    Pos
}

// Include is a line that includes a file.
type Include struct {
	Name   string // as written
	System bool   // in <>, not ""
	// File is what positions in the included text, and #pragma once, name it by; ""
	// is Name.
	File string
	Read bool // Options.Include returned its text
	Pos  Pos  // its File is of the text that includes
}

// Skipped is something that is no declaration.
type Skipped struct {
	What string // "function", "variable" or "macro"
	Name string
	Pos  Pos
}

// tag is a name in its space.
type tag struct {
	kind Kind
	name string
}

// Type is a type that the text defines, or nil.
func (d *Decls) Type(kind Kind, name string) btf.Type { return d.byName[tag{kind, name}] }

// Error is a text that can't be read, with its place and what to do.
type Error struct {
	Pos Pos
	// Len is how many bytes from Pos it is about; at least 1.
	Len int
	// Msg is what is wrong, and after a colon what to do about it.
	Msg string
	// Err is what a function of Options returned, or nil.
	Err error
}

// Error is FILE:LINE:COLUMN: MSG.
func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Parse reads declarations. The error is an *Error. Name is what positions call the
// text.
func Parse(name string, text []byte, o *Options) (*Decls, error) {
	if o == nil {
		o = new(Options)
	}
	m, err := machineOf(o.Arch)
	if err != nil {
		return nil, &Error{Pos: Pos{name, max(o.Line, 1), max(o.Column, 1)}, Len: 1, Msg: err.Error()}
	}
	s := newState(o, m)
	s.pp = &preprocessor{
		state: s, macros: map[string]*macro{}, once: map[string]bool{}, most: maxExpanded,
	}
	s.pp.open(newLexer(name, string(text), o.Line, o.Column), len(text), token{pos: Pos{name, 1, 1}})
	if s.err == nil {
		p := newParser(s, s.pp)
		for s.err == nil && p.tok.kind != isEnd {
			p.declaration()
		}
		s.finish()
		s.defines()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.decls, nil
}

// state is what all parsers of a text share.
type state struct {
	opts     *Options
	machine  *machine
	pp       *preprocessor
	err      *Error // the first one; after it all tokens are ends
	decls    *Decls
	tags     map[string]*tagged
	typedefs map[string]btf.Type
	asked    map[string]bool // typedefs that Resolve was asked for
	values   map[string]Value
	basic    map[string]btf.Type
	infos    map[btf.Type]info
	made     []btf.Type // those that hold other types
	forward  map[btf.Type]*tagged
	order    []*tagged
	aligned  map[btf.Type]uint64 // typedefs with an alignment of their own
	implied  map[string]bool     // typedefs that the text does not have itself
}

func newState(o *Options, m *machine) *state {
	return &state{
		opts: o, machine: m, decls: &Decls{byName: map[tag]btf.Type{}},
		tags: map[string]*tagged{}, typedefs: map[string]btf.Type{}, asked: map[string]bool{},
		values: map[string]Value{}, basic: map[string]btf.Type{}, infos: map[btf.Type]info{},
		forward: map[btf.Type]*tagged{}, aligned: map[btf.Type]uint64{}, implied: map[string]bool{},
	}
}

// fail keeps the first error.
func (s *state) fail(at token, format string, args ...any) {
	s.failBy(at, nil, format, args...)
}

func (s *state) failBy(at token, cause error, format string, args ...any) {
	if s.err == nil {
		n := len(at.text)
		if at.kind == isBad {
			n = 1 // the text is another
		}
		s.err = &Error{Pos: at.pos, Len: max(n, 1), Msg: fmt.Sprintf(format, args...), Err: cause}
	}
}

func (s *state) skipped(what string, at token) {
	s.decls.Skipped = append(s.decls.Skipped, Skipped{what, at.text, at.pos})
}

// defines evaluates the macros that are left.
func (s *state) defines() {
	if s.err != nil {
		return
	}
	done := map[string]bool{}
	for _, name := range s.pp.order {
		m := s.pp.macros[name]
		if m == nil || m.called || done[name] {
			continue
		}
		done[name] = true
		d := Define{Name: name, Text: spelled(m.body), Pos: m.pos}
		s.evaluate(&d, m)
		s.decls.Defines = append(s.decls.Defines, d)
		if s.pp.spent > maxExpanded {
			s.fail(token{pos: m.pos}, "macros expand to more than %d tokens: write less by macros",
				maxExpanded)
			return
		}
	}
}

// evaluate finds the value of a macro, if it has one. That it has none is no error:
// it may stand for a type, or for half an expression.
func (s *state) evaluate(d *Define, m *macro) {
	if len(m.body) == 0 {
		return
	}
	s.pp.most = s.pp.spent + maxDefine
	m.active = true
	end := token{kind: isEOL, pos: m.pos}
	ts := s.pp.expanded(m.body)
	m.active = false
	if s.err == nil && len(ts) > 0 {
		p := newParser(s, &slice{ts, end})
		if ts[0].kind == isText {
			d.Str = p.texts()
			d.String = s.err == nil && p.tok.kind == isEOL
		} else {
			d.Value = p.expression()
			d.Integer = s.err == nil && p.tok.kind == isEOL
		}
	}
	s.err = nil
	if !d.String {
		d.Str = ""
	}
	if !d.Integer {
		d.Value = Value{}
	}
}
