package cdecl

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// These bound the input, so that memory and time are proportional to the size of the text.
const (
	maxText     = 16 << 20  // bytes of the text and all its includes
	maxExpanded = 1 << 20   // tokens that macros may expand to
	maxDefine   = 4 << 10   // tokens of a define's value
	maxIncludes = 64        // nested includes
	maxNesting  = 64        // nested declarators, structs or expressions
	maxDepth    = 128       // nested types, not counting structs behind pointers
	maxMembers  = 1<<16 - 1 // members of a struct or an enum, parameters: BTF's own limit
	maxSize     = 256 << 20 // bytes of a type, so that bit offsets are far below 32 bits
)

// Kind is a kind of type with a name.
type Kind uint8

// These are the kinds of types. The tags of structs, unions and enums share one name space;
// typedefs have another.
const (
	Struct Kind = iota
	Union
	Enum
	Typedef
)

// String returns C's keyword for the kind.
func (k Kind) String() string { return [...]string{"struct", "union", "enum", "typedef"}[k&3] }

// Options configures Parse. A nil *Options is like a zero one.
type Options struct {
	// Arch is the machine for which types are laid out, in GOARCH's spelling; "" means this
	// program's. The 64-bit little-endian machines are supported.
	Arch string
	// Line and Column are the position in its file at which the text begins, from 1; 0 means
	// 1.
	Line, Column int
	// Resolve returns a type that the text does not define, such as a struct of the kernel
	// from its BTF. It returns a Struct, Union, Enum or Typedef of the given kind, or nil if
	// there is none. It is called once for each name. BTF does not contain the alignment of a
	// type: it is computed from the members, unless their offsets show a smaller one.
	Resolve func(kind Kind, name string) (btf.Type, error)
	// Macro returns the text of a macro that is defined before the text begins, like a
	// compiler's -D. It is called once for each name in the text. Macros that compilers define
	// (__LP64__, __x86_64__, …) are used if it returns false.
	Macro func(name string) (text string, ok bool)
	// Constant returns the value of a name in a constant expression, if the text neither
	// defines nor enumerates it.
	Constant func(name string) (value int64, ok bool)
	// Include returns the text of an included file, nil to leave it out. It may set the
	// Include's File. If it is nil, all includes are left out.
	Include func(i *Include) ([]byte, error)
	// SkipCode skips parts that are not declarations: function bodies, initial values of
	// variables, macros with parameters. Otherwise these are errors.
	SkipCode bool
}

// Decls contains the declarations of a text.
type Decls struct {
	// Types contains the types that the text defines with a name, in its order.
	Types []Type
	// Constants contains the enumerators, in order.
	Constants []Constant
	// Defines contains the macros without parameters that are defined at the end, in the order
	// of their first definition.
	Defines []Define
	// Includes contains the files that the text, and the texts that it includes, include.
	Includes []Include
	// Skipped contains what was skipped because of SkipCode.
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
	// Text is the replacement text.
	Text string
	// Value is the value of Text if it is an integer constant expression; otherwise Integer is
	// false.
	Value   Value
	Integer bool
	// Str is the value of Text if it consists only of string literals; otherwise String is
	// false.
	Str    string
	String bool
	Pos    Pos
}

// Include is an include directive.
type Include struct {
	Name   string // as written
	System bool   // in <>, not ""
	// File is the name of the file in positions in the included text, and for #pragma once; ""
	// means Name.
	File string
	Read bool // Options.Include returned its text
	Pos  Pos  // its File is the including text's
}

// Skipped is a part of the text that is not a declaration.
type Skipped struct {
	What string // "function", "variable" or "macro"
	Name string
	Pos  Pos
}

// tag is a name in its name space.
type tag struct {
	kind Kind
	name string
}

// Type returns a type that the text defines, or nil.
func (d *Decls) Type(kind Kind, name string) btf.Type { return d.byName[tag{kind, name}] }

// Error is the error for a text that cannot be parsed, with its position and what to do.
type Error struct {
	Pos Pos
	// Len is the number of bytes from Pos that the error refers to, at least 1.
	Len int
	// Msg describes the mistake and, after a colon, what to do about it.
	Msg string
	// Err is the error that a function of Options returned, or nil.
	Err error
}

// Error returns FILE:LINE:COLUMN: MSG.
func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Parse parses declarations. The error is an *Error. name is the text's name in positions.
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

// state is shared by all parsers of a text.
type state struct {
	opts     *Options
	machine  *machine
	pp       *preprocessor
	err      *Error // the first one; from then on all tokens are ends
	decls    *Decls
	tags     map[string]*tagged
	typedefs map[string]btf.Type
	asked    map[string]bool // typedefs for which Resolve was called
	values   map[string]Value
	basic    map[string]btf.Type
	infos    map[btf.Type]info
	made     []btf.Type // types that contain other types
	forward  map[btf.Type]*tagged
	order    []*tagged
	aligned  map[btf.Type]uint64 // typedefs with an alignment of their own
	implied  map[string]bool     // typedefs that the text does not define itself
}

func newState(o *Options, m *machine) *state {
	return &state{
		opts: o, machine: m, decls: &Decls{byName: map[tag]btf.Type{}},
		tags: map[string]*tagged{}, typedefs: map[string]btf.Type{}, asked: map[string]bool{},
		values: map[string]Value{}, basic: map[string]btf.Type{}, infos: map[btf.Type]info{},
		forward: map[btf.Type]*tagged{}, aligned: map[btf.Type]uint64{}, implied: map[string]bool{},
	}
}

// fail records the first error.
func (s *state) fail(at token, format string, args ...any) {
	s.failBy(at, nil, format, args...)
}

func (s *state) failBy(at token, cause error, format string, args ...any) {
	if s.err == nil {
		n := len(at.text)
		if at.kind == isBad {
			n = 1 // the text is an error message
		}
		s.err = &Error{Pos: at.pos, Len: max(n, 1), Msg: fmt.Sprintf(format, args...), Err: cause}
	}
}

func (s *state) skipped(what string, at token) {
	s.decls.Skipped = append(s.decls.Skipped, Skipped{what, at.text, at.pos})
}

// defines evaluates the macros that are defined at the end.
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

// evaluate computes the value of a macro, if it has one. It is no error if it has none,
// because it may stand for a type, or for part of an expression.
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
