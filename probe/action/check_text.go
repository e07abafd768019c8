package action

import (
	"errors"
	"fmt"
)

// text types the operations on text, and those on bytes that are like them.
func (c *checker) text(e *Expr, args []*Expr) (*Expr, error) {
	switch e.Op {
	case OpMemcmp:
		return memcmp(e, args)
	case OpLen:
		if t := args[0].Type; t.Kind == KindBytes && (t.Format == FormatKstack || t.Format == FormatUstack) {
			return &Expr{Op: OpLen, Type: u32, Args: args, Pos: e.Pos}, nil
		}
	}
	out := &Expr{Op: e.Op, Type: BoolType(), Str: e.Str, Int: e.Int, Args: make([]*Expr, len(args)), Pos: e.Pos}
	for i, a := range args {
		x := asText(a)
		if x.Type.Kind != KindString {
			return nil, fmt.Errorf("%s is %s, not text", shortString(x), x.Type)
		}
		out.Args[i] = x
	}
	switch e.Op {
	case OpLen:
		out.Type = u32
	case OpStrncmp:
		out.Type = u32
		if e.Int < 1 || e.Int > maxMemory {
			return nil, fmt.Errorf("strncmp of %d bytes", e.Int)
		}
	case OpGlob:
		g, err := parseGlob(e.Str)
		if err != nil {
			return nil, err
		}
		if g.all() {
			return constOf(BoolType(), 1), nil
		}
	default:
		return c.needle(out)
	}
	return out, nil
}

// needle types the search for text in text.
func (c *checker) needle(out *Expr) (*Expr, error) {
	missing := constOf(BoolType(), 0)
	found := constOf(BoolType(), 1)
	if out.Op == OpIndexOf {
		out.Type = Int64Type()
		missing, found = constOf(out.Type, ^uint64(0)), constOf(out.Type, 0)
	}
	if len(out.Args) == 2 {
		if out.Args[1].Op != OpString {
			return out, nil
		}
		out.Str, out.Args = out.Args[1].Str, out.Args[:1]
	}
	if _, err := c.stringConst(&Expr{Str: out.Str}); err != nil {
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

// memcmp types a comparison of memory by order.
func memcmp(e *Expr, args []*Expr) (*Expr, error) {
	for _, a := range args {
		if a.Type.Kind != KindString && a.Type.Kind != KindBytes {
			return nil, fmt.Errorf("%s is %s, not text or bytes", shortString(a), a.Type)
		}
		if e.Int < 1 || e.Int > int64(a.Type.Size) {
			return nil, fmt.Errorf("memcmp of %d bytes: %s is %s", e.Int, shortString(a), a.Type)
		}
	}
	return &Expr{Op: OpMemcmp, Type: IntType(4, true), Int: e.Int, Args: args, Pos: e.Pos}, nil
}

// glob is a pattern that matches whole texts: a list of classes of bytes, with
// gaps for anything between them. A text is matched by the set of positions
// that the pattern may be at, one bit each.
type glob struct {
	tokens []globClass
	gaps   uint64 // bit i: anything may stand before token i, or at the end
}

// globClass is the bytes that one token matches.
type globClass struct {
	any     bool
	negated bool
	ranges  [][2]byte
}

// maxGlob bounds a pattern's tokens: one bit each, and one for the end.
const maxGlob = 62

// parseGlob reads a pattern of *, ?, [a-z], [!a-z] and literal bytes.
func parseGlob(s string) (*glob, error) {
	g := &glob{}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case 0:
			return nil, errors.New("pattern with a NUL byte")
		case '*':
			g.gaps |= 1 << len(g.tokens)
			continue
		case '?':
			g.tokens = append(g.tokens, globClass{any: true})
		case '[':
			class, n, err := parseClass(s[i+1:])
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", s, err)
			}
			g.tokens = append(g.tokens, class)
			i += n
		default:
			g.tokens = append(g.tokens, globClass{ranges: [][2]byte{{c, c}}})
		}
		if len(g.tokens) > maxGlob {
			return nil, fmt.Errorf("pattern %q: more than %d characters", s, maxGlob)
		}
	}
	return g, nil
}

// parseClass reads a character class behind its bracket, and says how long it is.
func parseClass(s string) (c globClass, n int, err error) {
	if n < len(s) && s[n] == '!' {
		c.negated = true
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
		c.ranges = append(c.ranges, [2]byte{lo, hi})
	}
}

// all says whether every text matches.
func (g *glob) all() bool { return len(g.tokens) == 0 && g.gaps == 1 }

// match says whether the class has the byte.
func (c *globClass) match(b byte) bool {
	if c.any {
		return true
	}
	for _, r := range c.ranges {
		if b >= r[0] && b <= r[1] {
			return !c.negated
		}
	}
	return c.negated
}

// match says whether the pattern matches the whole text.
func (g *glob) match(text []byte) bool {
	at := uint64(1)
	for _, b := range text {
		next := at & g.gaps
		for i := range g.tokens {
			if at>>i&1 != 0 && g.tokens[i].match(b) {
				next |= 1 << (i + 1)
			}
		}
		at = next
	}
	return at>>len(g.tokens)&1 != 0
}
