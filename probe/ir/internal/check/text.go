package check

import (
	"errors"
	"fmt"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// text determines the types of the operations on text, and of those on bytes that are like
// them.
func text(e *ir.Expr, args []*typed.Node) (*typed.Node, error) {
	switch e.Op {
	case ir.OpMemcmp:
		return memcmp(e.Int, args)
	case ir.OpLen:
		if t := args[0].Type; t.Kind == ir.KindBytes &&
			(t.Format == ir.FormatKstack || t.Format == ir.FormatUstack) {
			return typed.New(ir.OpLen, ir.IntType(4, false), args...), nil
		}
	}
	out := &typed.Node{
		Op: e.Op, Type: ir.BoolType(), Str: e.Str, Int: e.Int,
		Args: make([]*typed.Node, len(args)),
	}
	for i, a := range args {
		x := asText(a)
		if x.Type.Kind != ir.KindString {
			return nil, fmt.Errorf("%s is %s, not text", shortString(x), x.Type)
		}
		out.Args[i] = x
	}
	switch e.Op {
	case ir.OpLen:
		out.Type = ir.IntType(4, false)
	case ir.OpStrncmp:
		out.Type = ir.IntType(4, false)
		if e.Int < 1 || e.Int > ir.MaxMemory {
			return nil, fmt.Errorf("strncmp of %d bytes", e.Int)
		}
	case ir.OpGlob:
		g, err := ParseGlob(e.Str)
		if err != nil {
			return nil, err
		}
		if g.all() {
			return constOf(ir.BoolType(), 1), nil
		}
	default:
		return needle(out)
	}
	return out, nil
}

// needle determines the type of a search for text in text.
func needle(out *typed.Node) (*typed.Node, error) {
	missing := constOf(ir.BoolType(), 0)
	found := constOf(ir.BoolType(), 1)
	if out.Op == ir.OpIndexOf {
		out.Type = ir.Int64Type()
		missing, found = constOf(out.Type, ^uint64(0)), constOf(out.Type, 0)
	}
	if len(out.Args) == 2 {
		if out.Args[1].Op != ir.OpString {
			return out, nil
		}
		out.Str, out.Args = out.Args[1].Str, out.Args[:1]
	}
	if _, err := stringConst(out.Str, ir.Type{}); err != nil {
		return nil, err
	}
	switch n := len(out.Str); {
	case n == 0:
		return found, nil
	case n >= out.Args[0].Type.Size:
		return missing, nil
	}
	return out, nil
}

// memcmp determines the type of a comparison of memory by order.
func memcmp(n int64, args []*typed.Node) (*typed.Node, error) {
	for _, a := range args {
		if a.Type.Kind != ir.KindString && a.Type.Kind != ir.KindBytes {
			return nil, fmt.Errorf("%s is %s, not text or bytes", shortString(a), a.Type)
		}
		if n < 1 || n > int64(a.Type.Size) {
			return nil, fmt.Errorf("memcmp of %d bytes: %s is %s", n, shortString(a), a.Type)
		}
	}
	return &typed.Node{Op: ir.OpMemcmp, Type: ir.IntType(4, true), Int: n, Args: args}, nil
}

// Glob is a pattern for whole texts: a list of classes of bytes, with gaps for anything
// between them. Matching keeps the set of positions in the pattern that the text so far can
// reach, one bit each.
type Glob struct {
	Tokens []globClass
	Gaps   uint64 // bit i: anything may precede token i or, for i = len(Tokens), the end
}

// globClass is the set of bytes that one token matches.
type globClass struct {
	Any     bool
	Negated bool
	Ranges  [][2]byte
}

// maxGlob is the maximal number of a pattern's tokens: each needs a bit, and so does the end.
const maxGlob = 62

// ParseGlob parses a pattern of *, ?, [a-z], [!a-z] and literal bytes.
func ParseGlob(s string) (*Glob, error) {
	g := &Glob{}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case 0:
			return nil, errors.New("pattern with a NUL byte")
		case '*':
			g.Gaps |= 1 << len(g.Tokens)
			continue
		case '?':
			g.Tokens = append(g.Tokens, globClass{Any: true})
		case '[':
			class, n, err := parseClass(s[i+1:])
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", s, err)
			}
			g.Tokens = append(g.Tokens, class)
			i += n
		default:
			g.Tokens = append(g.Tokens, globClass{Ranges: [][2]byte{{c, c}}})
		}
		if len(g.Tokens) > maxGlob {
			return nil, fmt.Errorf("pattern %q: more than %d characters", s, maxGlob)
		}
	}
	return g, nil
}

// parseClass parses a character class after its opening bracket, and returns its length with
// the closing one.
func parseClass(s string) (c globClass, n int, err error) {
	if n < len(s) && s[n] == '!' {
		c.Negated = true
		n++
	}
	for first := true; ; first = false {
		if n >= len(s) {
			return c, 0, errors.New("no ]")
		}
		lo := s[n]
		n++
		if lo == ']' && !first {
			return c, n, nil
		}
		hi := lo
		if n+1 < len(s) && s[n] == '-' && s[n+1] != ']' {
			hi = s[n+1]
			n += 2
		}
		if hi < lo {
			return c, 0, fmt.Errorf("range %c-%c", lo, hi)
		}
		c.Ranges = append(c.Ranges, [2]byte{lo, hi})
	}
}

// all reports whether the pattern matches every text.
func (g *Glob) all() bool { return len(g.Tokens) == 0 && g.Gaps == 1 }

// match reports whether the class contains the byte.
func (c *globClass) match(b byte) bool {
	if c.Any {
		return true
	}
	for _, r := range c.Ranges {
		if b >= r[0] && b <= r[1] {
			return !c.Negated
		}
	}
	return c.Negated
}

// Match reports whether the pattern matches the whole text.
func (g *Glob) Match(text []byte) bool {
	at := uint64(1)
	for _, b := range text {
		next := at & g.Gaps
		for i := range g.Tokens {
			if at>>i&1 != 0 && g.Tokens[i].match(b) {
				next |= 1 << (i + 1)
			}
		}
		at = next
	}
	return at>>len(g.Tokens)&1 != 0
}

// Key returns a string that is equal for equal classes.
func (c *globClass) Key() string {
	b := []byte{byte(eval.B2u(c.Negated))}
	for _, r := range c.Ranges {
		b = append(b, r[0], r[1])
	}
	return string(b)
}
