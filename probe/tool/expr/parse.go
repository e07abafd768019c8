package expr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// SyntaxError is the error for an expression that cannot be parsed.
type SyntaxError struct {
	// Input is the whole text. Offset is the byte in it, from 0, at which the mistake is.
	Input  string
	Offset int
	// Msg describes the mistake and how to correct it.
	Msg string
}

// Error returns `"INPUT": column 3: MSG`. Columns count bytes from one.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%q: column %d: %s", e.Input, e.Offset+1, e.Msg)
}

// Parse parses an expression for a target; the meaning of names depends on the target's kind.
// bpf.Compile checks that arguments and members exist. An error is a *SyntaxError.
func Parse(text string, target probe.Target) (*ir.Expr, error) {
	list, err := ParseList(text, target)
	if err == nil && len(list) != 1 {
		err = &SyntaxError{text, len(text), "one expression is wanted"}
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// ParseList parses expressions that are separated by commas. An empty text gives none. An
// error is a *SyntaxError.
func ParseList(text string, target probe.Target) (list []*ir.Expr, err error) {
	p := &parser{text: text, fields: hasFields(target), user: ofUser(target)}
	defer func() {
		// Parse errors unwind the parser; nothing else panics here.
		if r := recover(); r != nil {
			se, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			list, err = nil, se
		}
	}()
	p.next()
	for p.tok.kind != end {
		list = append(list, p.ternary())
		if p.tok.kind == end {
			break
		}
		if !p.take(",") {
			p.fail(p.tok.pos, "an operator, a comma or the end is wanted here")
		}
		if p.tok.kind == end {
			p.fail(p.tok.pos, "an expression is missing")
		}
	}
	return list, nil
}

// hasFields reports whether a target's values are the fields of a record.
func hasFields(target probe.Target) bool {
	switch t := target.(type) {
	case probe.Tracepoint, probe.Perf, probe.Iter:
		return true
	case probe.Set:
		return len(t) > 0 && hasFields(t[0])
	}
	return false
}

// ofUser reports whether the addresses that a target gives are the user's.
func ofUser(target probe.Target) bool {
	switch t := target.(type) {
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		return true
	case probe.Set:
		return len(t) > 0 && ofUser(t[0])
	}
	return false
}

// DefaultText is the size of the text that str reads by default, in bytes, with the NUL at
// its end.
const DefaultText = 64

// maxText is the largest length of a text.
const maxText = 1023

// maxDepth bounds the nesting of expressions.
const maxDepth = 100

type kind uint8

const (
	end kind = iota
	number
	text
	name
	sign
)

type token struct {
	kind kind
	pos  int
	str  string // as written; for text, its value
	num  int64
}

type parser struct {
	text   string
	pos    int
	tok    token
	fields bool // the target's values are fields
	user   bool // its addresses are the user's
	depth  int
}

func (p *parser) fail(pos int, format string, args ...any) {
	panic(&SyntaxError{p.text, pos, fmt.Sprintf(format, args...)})
}

// signs are the operators, longest first.
var signs = []string{
	"->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
	"+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "?", ":", "(", ")", "[", "]", ".", ",",
}

// next reads the next token.
func (p *parser) next() {
	rest := strings.TrimLeft(p.text[p.pos:], " \t\n")
	p.pos = len(p.text) - len(rest)
	p.tok = token{pos: p.pos}
	if rest == "" {
		return
	}
	switch c := rest[0]; {
	case c >= '0' && c <= '9':
		p.word(number, rest)
		n, err := strconv.ParseUint(p.tok.str, 0, 64)
		if err != nil {
			p.fail(p.tok.pos, "%q is not a number", p.tok.str)
		}
		p.tok.num = int64(n)
	case isLetter(c):
		p.word(name, rest)
	case c == '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			p.fail(p.pos, "the text has no end")
		}
		p.tok.kind = text
		p.tok.str, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
		p.pos += len(quoted)
	default:
		for _, s := range signs {
			if strings.HasPrefix(rest, s) {
				p.tok.kind, p.tok.str = sign, s
				p.pos += len(s)
				return
			}
		}
		hint := map[byte]string{'=': ": == compares", '\'': `: text is in double quotes`}[c]
		p.fail(p.pos, "unexpected %q%s", string(c), hint)
	}
}

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *parser) word(k kind, rest string) {
	n := 0
	for n < len(rest) && (isLetter(rest[n]) || rest[n] >= '0' && rest[n] <= '9') {
		n++
	}
	p.tok.kind, p.tok.str = k, rest[:n]
	p.pos += n
}

// is reports whether the token is that sign.
func (p *parser) is(s string) bool { return p.tok.kind == sign && p.tok.str == s }

// take reads the next token if the current one is that sign, and reports whether it was.
func (p *parser) take(s string) bool {
	if !p.is(s) {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(s string) {
	if !p.take(s) {
		p.fail(p.tok.pos, "%q is wanted here", s)
	}
}

func (p *parser) ternary() *ir.Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.pos, "too deeply nested")
	}
	defer func() { p.depth-- }()
	cond := p.binary(0)
	if !p.take("?") {
		return cond
	}
	then := p.ternary()
	p.want(":")
	return ir.NewExpr(ir.OpCond, truth(cond), then, p.ternary())
}

// levels are C's binary operators by precedence, lowest first.
var levels = []map[string]ir.Op{
	{"||": ir.OpLOr},
	{"&&": ir.OpLAnd},
	{"|": ir.OpOr},
	{"^": ir.OpXor},
	{"&": ir.OpAnd},
	{"==": ir.OpEq, "!=": ir.OpNe},
	{"<": ir.OpLt, "<=": ir.OpLe, ">": ir.OpGt, ">=": ir.OpGe},
	{"<<": ir.OpShl, ">>": ir.OpShr},
	{"+": ir.OpAdd, "-": ir.OpSub},
	{"*": ir.OpMul, "/": ir.OpDiv, "%": ir.OpMod},
}

func (p *parser) binary(level int) *ir.Expr {
	if level == len(levels) {
		return p.unary()
	}
	x := p.binary(level + 1)
	for p.tok.kind == sign {
		op, ok := levels[level][p.tok.str]
		if !ok {
			break
		}
		p.next()
		y := p.binary(level + 1)
		if op == ir.OpLAnd || op == ir.OpLOr {
			x, y = truth(x), truth(y)
		}
		x = ir.NewExpr(op, x, y)
		if comparison(op) {
			x.Str = "(long)%s" // how an operand becomes signed
		}
	}
	return x
}

func comparison(op ir.Op) bool { return op >= ir.OpEq && op <= ir.OpGe }

func (p *parser) unary() *ir.Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.pos, "too deeply nested")
	}
	defer func() { p.depth-- }()
	switch {
	case p.take("!"):
		return ir.NewExpr(ir.OpLNot, truth(p.unary()))
	case p.take("-"):
		return ir.NewExpr(ir.OpNeg, p.unary())
	case p.take("~"):
		return ir.NewExpr(ir.OpNot, p.unary())
	case p.take("*"):
		return ir.NewExpr(ir.OpDeref, p.unary())
	case p.is("("):
		if t := p.cast(); t != nil {
			t.Args = []*ir.Expr{p.unary()}
			return t
		}
	}
	return p.postfix(p.primary())
}

// ints are the integer types that casts name.
var ints = map[string]ir.Type{
	"u8": ir.IntType(1, false), "u16": ir.IntType(2, false), "u32": ir.IntType(4, false),
	"u64": ir.IntType(8, false), "s8": ir.IntType(1, true), "s16": ir.IntType(2, true),
	"s32": ir.IntType(4, true), "s64": ir.IntType(8, true), "int": ir.IntType(4, true),
	"long": ir.IntType(8, true),
}

// cast parses "(struct NAME *)", "(NAME *)" or "(u32)". If there is anything else, it reads
// nothing and returns nil.
func (p *parser) cast() *ir.Expr {
	pos, tok := p.pos, p.tok
	p.next()
	if p.tok.kind == name {
		typ := p.tok.str
		p.next()
		if typ == "struct" || typ == "union" || typ == "enum" {
			typ += " " + p.tok.str
			p.next()
		}
		if p.take("*") {
			if p.take(")") {
				return &ir.Expr{Op: ir.OpCast, Str: typ, Type: ir.PtrType(nil, p.user)}
			}
		} else if t, ok := ints[typ]; ok && p.take(")") {
			return &ir.Expr{Op: ir.OpCast, Type: t}
		}
	}
	p.pos, p.tok = pos, tok
	return nil
}

// postfix parses the members, which form one path, and indexes that follow a value.
func (p *parser) postfix(x *ir.Expr) *ir.Expr {
	for {
		switch {
		case p.is(".") || p.is("->"):
			step := p.tok.str
			p.next()
			member := p.ident()
			if x.Op == ir.OpMember {
				x.Str += step + member
			} else {
				x = &ir.Expr{Op: ir.OpMember, Str: member, Args: []*ir.Expr{x}}
			}
		case p.take("["):
			i := p.ternary()
			p.want("]")
			x = ir.NewExpr(ir.OpIndex, x, i)
		default:
			return x
		}
	}
}

func (p *parser) ident() string {
	if p.tok.kind != name {
		p.fail(p.tok.pos, "a name is wanted here")
	}
	s := p.tok.str
	p.next()
	return s
}

func (p *parser) primary() *ir.Expr {
	t := p.tok
	switch t.kind {
	case number:
		p.next()
		x := ir.NewConst(t.num)
		if t.num < 0 { // as in C it is unsigned, and so not the negative number of these bits
			x.Type = ir.Uint64Type()
		}
		return x
	case text:
		p.next()
		return ir.NewString(t.str)
	case name:
		p.next()
		if p.is("(") {
			return p.call(t)
		}
		return p.value(t)
	}
	if p.take("(") {
		x := p.ternary()
		p.want(")")
		return x
	}
	p.fail(t.pos, "a value is wanted here")
	return nil
}

// value returns the expression for a name.
func (p *parser) value(t token) *ir.Expr {
	if n, err := strconv.Atoi(strings.TrimPrefix(t.str, "arg")); err == nil &&
		strings.HasPrefix(t.str, "arg") && n >= 0 {
		return &ir.Expr{Op: ir.OpArg, Int: int64(n)}
	}
	switch t.str {
	case "retval":
		return &ir.Expr{Op: ir.OpRet}
	case "args":
		if !p.take(".") && !p.take("->") {
			p.fail(p.tok.pos, "args is followed by an argument: args.count")
		}
		op := ir.OpArg
		if p.fields {
			op = ir.OpField
		}
		return &ir.Expr{Op: op, Str: p.ident()}
	}
	for _, b := range ir.Builtins() {
		if b.Name == t.str {
			return ir.NewBuiltin(t.str)
		}
	}
	p.fail(t.pos, "%s is nothing known; arguments are arg0 and args.%s, builtins such as pid, comm, cpu and nsecs", t.str, t.str)
	return nil
}

// call parses a call of the function t.
func (p *parser) call(t token) *ir.Expr {
	p.want("(")
	x := p.ternary()
	switch t.str {
	case "str", "ustr":
		if t.str == "ustr" {
			x = &ir.Expr{Op: ir.OpCast, Type: ir.PtrType(nil, true), Args: []*ir.Expr{x}}
		}
		x = p.textAt(x)
	case "contains", "prefix":
		p.want(",")
		if p.tok.kind != text {
			p.fail(p.tok.pos, "%s compares with a constant text", t.str)
		}
		op := ir.OpContains
		if t.str == "prefix" {
			op = ir.OpHasPrefix
		}
		x = &ir.Expr{Op: op, Str: p.tok.str, Args: []*ir.Expr{x}}
		p.next()
	case "len":
		x = ir.NewExpr(ir.OpLen, x)
	case "bswap":
		x = ir.NewExpr(ir.OpBswap, x)
	default:
		p.fail(t.pos, "%s is no function: str, ustr, contains, prefix, len and bswap are", t.str)
	}
	p.want(")")
	return x
}

// textAt parses the lengths of the text at x, up to the closing bracket: a constant, or a value
// that the program computes and, perhaps, a constant that bounds it.
func (p *parser) textAt(x *ir.Expr) *ir.Expr {
	args, size := []*ir.Expr{x}, DefaultText
	for p.take(",") {
		pos := p.tok.pos
		n := p.ternary()
		switch {
		case n.Op == ir.OpConst && n.Int >= 1 && n.Int <= maxText:
			if size = int(n.Int) + 1; !p.is(")") {
				p.fail(p.tok.pos, "the length that is a number comes last")
			}
		case n.Op == ir.OpConst || Text(n):
			p.fail(pos, "the length of a text is a number from 1 to %d", maxText)
		case len(args) == 2:
			p.fail(pos, "what bounds the length of a text is a number from 1 to %d: a program needs the room before it runs", maxText)
		default:
			args = append(args, n)
		}
	}
	return &ir.Expr{Op: ir.OpStr, Type: ir.StringType(size), Args: args}
}

// truth returns x as a condition: a number is true if it is not 0.
func truth(x *ir.Expr) *ir.Expr {
	if comparison(x.Op) {
		return x
	}
	switch x.Op {
	case ir.OpLAnd, ir.OpLOr, ir.OpLNot, ir.OpHasPrefix, ir.OpContains:
		return x
	}
	return ir.NewExpr(ir.OpNe, x, ir.NewConst(0))
}

// Filter ends an action unless the expression is true. nil is always true.
func Filter(c *action.Ctx, e *ir.Expr) {
	if e == nil {
		return
	}
	c.Do(&ir.Stmt{
		Op: ir.StmtIf, X: ir.NewExpr(ir.OpLNot, truth(e)),
		Body: []*ir.Stmt{{Op: ir.StmtReturn}},
	})
}

// Text reports whether an expression is text for every target: str(...), comm, or a constant.
// Fields of a tracepoint that are text need str(args.field).
func Text(e *ir.Expr) bool {
	switch e.Op {
	case ir.OpStr, ir.OpString:
		return true
	case ir.OpBuiltin:
		return e.Str == "comm"
	case ir.OpCond:
		return Text(e.Args[1])
	}
	return false
}
