package cdecl

import (
	"strings"

	"github.com/cilium/ebpf/btf"
)

// spec is the beginning of a declaration: a type and its specifiers.
type spec struct {
	typ     btf.Type
	typedef bool
	body    bool // the type is defined here
	unnamed bool // a struct or union without a tag
	attrs   attrs
}

// counts contains the words of an integer or floating-point type.
type counts struct {
	base                                string // "", char, int, float, double, void, …
	short, long, signed, unsigned       int
	constant, volatile, complex, atomic bool
}

// specifiers reads a type as it appears before a name. Storage classes are allowed if file is
// set, at file scope.
func (p *parser) specifiers(file bool) spec {
	var sp spec
	var c counts
	begin := p.tok
	for p.err == nil {
		switch {
		case p.attribute(&sp.attrs):
		case p.tok.kind != isWord:
			return p.specified(sp, c, begin)
		case p.storage(&sp, file), c.word(p.tok.text):
			p.next()
		case sp.typ != nil || c.any():
			return p.specified(sp, c, begin)
		case p.tok.is("struct") || p.tok.is("union"):
			p.structure(&sp)
		case p.tok.is("enum"):
			p.enumeration(&sp)
		case p.tok.is("typeof") || p.tok.is("__typeof__") || p.tok.is("__typeof"):
			p.next()
			p.want("(", "typeof")
			sp.typ = p.typeName()
			p.want(")", "the type")
		default:
			if sp.typ = p.named(p.tok); sp.typ == nil {
				p.stop(p.tok, "unknown type %v: declare it before", &p.tok)
				return sp
			}
			p.next()
		}
	}
	return sp
}

// specified combines what was read to a type.
func (p *parser) specified(sp spec, c counts, begin token) spec {
	switch {
	case p.err != nil:
		return sp
	case sp.typ == nil && c.any():
		sp.typ = p.arithmetic(c)
		if sp.typ == nil {
			p.stop(begin, "these words make no type that is known here: write one of C's, such as "+
				`"unsigned long"`)
			return sp
		}
	case sp.typ == nil:
		p.stop(p.tok, "a declaration begins here with %v, which is not a type: write one", &p.tok)
		return sp
	case c.any():
		p.stop(begin, "here are two types in one: take one of them out")
		return sp
	}
	if c.constant {
		sp.typ = p.hold(&btf.Const{Type: sp.typ}, sp.typ)
	}
	if c.volatile {
		sp.typ = p.hold(&btf.Volatile{Type: sp.typ}, sp.typ)
	}
	return sp
}

// storage accepts storage class specifiers, which do not affect types.
func (p *parser) storage(sp *spec, file bool) bool {
	switch p.tok.text {
	case "typedef":
		sp.typedef = true
		return file
	case "extern", "static", "inline", "__inline", "__inline__", "_Noreturn", "register",
		"_Thread_local", "__thread":
		return file
	case "__extension__":
		return true
	}
	return false
}

// word accepts a word of an arithmetic type, or a qualifier.
func (c *counts) word(s string) bool {
	switch s {
	case "const", "__const", "__const__":
		c.constant = true
	case "volatile", "__volatile", "__volatile__":
		c.volatile = true
	case "short":
		c.short++
	case "long":
		c.long++
	case "signed", "__signed", "__signed__":
		c.signed++
	case "unsigned":
		c.unsigned++
	case "_Complex", "__complex__":
		c.complex = true
	case "_Atomic":
		c.atomic = true
	case "void", "char", "int", "float", "double", "_Bool", "__int128", "__int128_t", "__uint128_t":
		if c.base != "" {
			c.atomic = true // two of them make no valid type
		}
		c.base = s
	default:
		return false
	}
	return true
}

func (c *counts) any() bool {
	return c.base != "" || c.short+c.long+c.signed+c.unsigned > 0 || c.complex || c.atomic
}

// arithmetic returns the type of the words, nil if they make none.
func (p *parser) arithmetic(c counts) btf.Type {
	if c.complex || c.atomic || c.short > 1 || c.long > 2 || c.signed > 1 || c.unsigned > 1 ||
		c.short > 0 && c.long > 0 || c.signed > 0 && c.unsigned > 0 {
		return nil
	}
	sign := ""
	if c.unsigned > 0 {
		sign = "unsigned "
	}
	sized, marked := c.short+c.long > 0, c.signed+c.unsigned > 0
	switch c.base {
	case "", "int":
		size := strings.Repeat("long ", c.long) + strings.Repeat("short ", c.short)
		return p.primitive(size + sign + "int")
	case "char":
		switch {
		case sized:
			return nil
		case c.signed > 0:
			sign = "signed "
		}
		return p.primitive(sign + "char")
	case "__int128":
		if !sized {
			return p.primitive(strings.TrimSpace("__int128 " + sign))
		}
	case "double":
		if !marked && c.short == 0 && c.long < 2 {
			return p.primitive(strings.Repeat("long ", c.long) + "double")
		}
	default:
		if !sized && !marked {
			return p.primitive(c.base)
		}
	}
	return nil
}

// primitive returns a type of C, by its name in compilers' BTF.
func (s *state) primitive(name string) btf.Type {
	if t := s.basic[name]; t != nil {
		return t
	}
	t := s.newPrimitive(name)
	if t != nil {
		s.basic[name] = t
	}
	return t
}

func (s *state) newPrimitive(name string) btf.Type {
	integer := func(size uint32) btf.Type {
		e := btf.Signed
		if strings.Contains(name, "unsigned") {
			e = btf.Unsigned
		}
		return &btf.Int{Name: name, Size: size, Encoding: e}
	}
	switch name {
	case "void":
		return &btf.Void{}
	case "_Bool":
		return &btf.Int{Name: name, Size: 1, Encoding: btf.Bool}
	case "char":
		e := btf.Signed
		if s.machine.unsignedChar {
			e = btf.Unsigned
		}
		return &btf.Int{Name: name, Size: 1, Encoding: e}
	case "signed char", "unsigned char":
		return integer(1)
	case "short int", "short unsigned int":
		return integer(2)
	case "int", "unsigned int":
		return integer(4)
	case "long int", "long unsigned int", "long long int", "long long unsigned int":
		return integer(8)
	case "__int128", "__int128 unsigned":
		return integer(16)
	case "__int128_t":
		return s.primitive("__int128")
	case "__uint128_t":
		return s.primitive("__int128 unsigned")
	case "float":
		return &btf.Float{Name: name, Size: 4}
	case "double":
		return &btf.Float{Name: name, Size: 8}
	case "long double":
		return &btf.Float{Name: name, Size: 16}
	}
	return nil
}

// named returns the typedef with that name: the text's, one that C programs have without
// declaring it, or the caller's.
func (s *state) named(at token) btf.Type {
	if t := s.typedefs[at.text]; t != nil {
		return t
	}
	if of := common(at.text); of != "" {
		t := s.hold(&btf.Typedef{Name: at.text, Type: s.primitive(of)}, s.primitive(of))
		s.typedefs[at.text], s.implied[at.text] = t, true
		return t
	}
	if s.asked[at.text] || s.opts.Resolve == nil || keyword(at.text) {
		return nil
	}
	s.asked[at.text] = true
	t := s.resolve(Typedef, at)
	if t != nil {
		s.typedefs[at.text], s.implied[at.text] = t, true
	}
	return t
}

// keyword reports whether a word can never be a name.
func keyword(name string) bool {
	switch name {
	case "if", "else", "for", "while", "do", "switch", "case", "return", "goto", "break", "continue",
		"default", "sizeof", "struct", "union", "enum", "typedef", "extern", "static", "register",
		"inline", "restrict":
		return true
	}
	var c counts
	return c.word(name)
}

// common returns the primitive type behind a typedef of the kernel's or the C library's
// headers, "" if it is none of those. Scripts use them without including a header.
func common(name string) string {
	switch name {
	case "bool":
		return "_Bool"
	case "u8", "__u8", "uint8_t", "u_int8_t", "u_char", "unchar":
		return "unsigned char"
	case "s8", "__s8", "int8_t":
		return "signed char"
	case "u16", "__u16", "__le16", "__be16", "__sum16", "uint16_t", "u_int16_t", "u_short", "ushort",
		"umode_t":
		return "short unsigned int"
	case "s16", "__s16", "int16_t":
		return "short int"
	case "u32", "__u32", "__le32", "__be32", "__wsum", "uint32_t", "u_int32_t", "u_int", "uint",
		"gfp_t",
		"__kernel_uid32_t", "__kernel_gid32_t", "uid_t", "gid_t", "__poll_t":
		return "unsigned int"
	case "s32", "__s32", "int32_t", "pid_t", "__kernel_pid_t", "clockid_t":
		return "int"
	case "u64", "__u64", "__le64", "__be64":
		return "long long unsigned int"
	case "s64", "__s64", "loff_t", "__kernel_loff_t":
		return "long long int"
	case "uint64_t", "u_int64_t", "size_t", "__kernel_size_t", "__kernel_ulong_t", "u_long", "ulong",
		"uintptr_t", "sector_t":
		return "long unsigned int"
	case "int64_t", "ssize_t", "__kernel_ssize_t", "__kernel_long_t", "intptr_t", "ptrdiff_t", "off_t",
		"time_t":
		return "long int"
	}
	return ""
}

// resolve calls Options.Resolve for a type.
func (s *state) resolve(kind Kind, at token) btf.Type {
	t, err := s.opts.Resolve(kind, at.text)
	if err != nil {
		s.failBy(at, err, "%v %s can't be looked up: %v", kind, quote(at.text), err)
		return nil
	}
	ok := t == nil
	switch t.(type) {
	case *btf.Struct:
		ok = kind == Struct
	case *btf.Union:
		ok = kind == Union
	case *btf.Enum:
		ok = kind == Enum
	case *btf.Typedef:
		ok = kind == Typedef
	}
	if !ok {
		s.fail(at, "%v %s was looked up, and what was found is not a %[1]v: declare it in the text", kind,
			quote(at.text))
		return nil
	}
	if t != nil {
		s.resolvedInfo(t, 0)
	}
	return t
}

// hold records a type that contains another one, so that finish can replace the inner type.
func (s *state) hold(t, inner btf.Type) btf.Type {
	i := s.infoOf(inner)
	i.depth++
	s.infos[t] = i
	s.made = append(s.made, t)
	return t
}

// typeName reads a type without a name, as in sizeof(TYPE).
func (p *parser) typeName() btf.Type {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	sp := p.specifiers(false)
	if p.err != nil {
		return nil
	}
	return p.declarator(sp.typ, unnamed).typ
}

// beginsType reports whether a type begins with the token.
func (p *parser) beginsType(t *token) bool {
	if t.kind != isWord {
		return false
	}
	switch t.text {
	case "struct", "union", "enum", "typeof", "__typeof__", "__typeof", "__extension__",
		"__attribute__", "__attribute":
		return true
	}
	if _, ok := p.values[t.text]; ok {
		return false
	}
	if p.typedefs[t.text] == nil && p.opts.Constant != nil {
		if _, ok := p.opts.Constant(t.text); ok {
			return false // without asking the caller for such a type
		}
	}
	var c counts
	return c.word(t.text) || p.named(*t) != nil
}
