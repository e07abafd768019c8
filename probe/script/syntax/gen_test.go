package syntax

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// gen makes random scripts that are mostly accepted.
type gen struct {
	r    *rand.Rand
	b    strings.Builder
	room int // choices left before it gets short
}

func (g *gen) pick(list ...string) string { return list[g.r.IntN(len(list))] }

// tok writes a token, and what may stand before it.
func (g *gen) tok(list ...string) {
	g.room--
	if g.r.IntN(12) == 0 {
		g.b.WriteString(g.pick(" ", "  ", "\n", "\n\n", "\t", "/* c */", "// d\n", "/* e\n * f */",
			"/**/", "//\n"))
	}
	g.b.WriteString(g.pick(list...) + g.pick("", "", " "))
}

func (g *gen) word(list ...string) {
	g.tok(list...)
	g.b.WriteByte(' ')
}

func (g *gen) list(sep string, most int, f func()) {
	for i := range g.r.IntN(most + 1) {
		if i > 0 {
			g.tok(sep)
		}
		f()
	}
}

func (g *gen) script() {
	if g.r.IntN(4) == 0 {
		g.b.WriteString("#define X 1\n")
	}
	for range 1 + g.r.IntN(3) {
		switch g.r.IntN(6) {
		case 0:
			g.word("macro")
			g.tok("m")
			g.tok("(")
			g.list(",", 3, func() { g.tok("$a", "@b", "c") })
			g.tok(")")
			g.block()
		case 1:
			g.word("fn")
			g.tok("f")
			g.tok("(")
			g.list(",", 2, func() { g.tok("$a"); g.tok(":"); g.typ() })
			g.tok(")")
			g.tok(":")
			g.typ()
			g.block()
		default:
			g.word("begin", "kprobe:f", "uprobe:/bin/a:b", `usdt:"a b":c`, "a=i:1s")
			if g.r.IntN(3) == 0 {
				g.tok("/")
				g.expr()
				g.tok("/")
			}
			g.block()
		}
	}
}

func (g *gen) typ() {
	if g.r.IntN(4) == 0 {
		g.tok("typeof")
		g.tok("(")
		g.expr()
		g.tok(")")
		return
	}
	g.word("uint8", "struct foo", "union bar", "string", "name_t", "enum e")
	for g.r.IntN(3) == 0 {
		g.tok("*", "[]", "[3]")
	}
}

func (g *gen) block() {
	g.tok("{")
	for g.room > 0 && g.r.IntN(3) > 0 {
		g.stmt()
	}
	if g.r.IntN(3) == 0 {
		g.expr()
	}
	g.tok("}")
}

func (g *gen) target() {
	switch g.r.IntN(3) {
	case 0:
		g.tok("$a")
	case 1:
		g.tok("@b", "@")
	default:
		g.tok("@c")
		g.tok("[")
		g.expr()
		g.list(",", 1, g.expr)
		g.tok("]")
	}
}

func (g *gen) stmt() {
	switch g.r.IntN(12) {
	case 0, 1:
		g.target()
		g.tok("=", "+=", "<<=", "/=")
		g.expr()
		g.tok(";")
	case 2:
		g.word("let")
		g.tok("$a")
		if g.r.IntN(2) == 0 {
			g.tok(":")
			g.typ()
		}
		if g.r.IntN(2) == 0 {
			g.tok("=")
			g.expr()
		}
		g.tok(";")
	case 3:
		g.word("while")
		g.cond()
		g.block()
	case 4:
		g.word("for")
		g.tok("$i")
		g.tok(":")
		if g.r.IntN(2) == 0 {
			g.word("@m")
		} else {
			g.primary()
			g.tok("..")
			g.primary()
		}
		g.block()
	case 5:
		g.word("break", "continue", "return")
		g.tok(";")
	case 6:
		g.word("return")
		g.expr()
		g.tok(";")
	case 7:
		g.word("_")
		g.tok("=")
		g.expr()
		g.tok(";")
	case 8, 9:
		g.ifExpr()
		g.tok(";", "")
	case 10:
		g.block()
		g.tok(";", "")
	default:
		g.expr()
		g.tok(";")
	}
}

func (g *gen) cond() {
	if g.r.IntN(2) == 0 {
		g.tok("(")
		g.expr()
		g.tok(")")
		return
	}
	g.primary()
}

func (g *gen) ifExpr() {
	g.word("if")
	g.cond()
	g.block()
	switch g.r.IntN(4) {
	case 0:
		g.word("else")
		g.block()
	case 1:
		g.word("else")
		g.ifExpr()
	}
}

func (g *gen) expr() {
	if g.room <= 0 {
		g.tok("1", "$x", "@y", "pid")
		return
	}
	switch g.r.IntN(14) {
	case 0, 1, 2:
		g.expr()
		g.tok("+", "-", "*", "/", "%", "&", "|", "^", "&&", "||", "==", "!=", "<", ">=", "<<")
		g.expr()
	case 3:
		g.tok("-", "!", "~", "*")
		g.primary()
	case 4:
		g.expr()
		g.tok("?")
		g.tok("", "1")
		g.tok(":")
		g.expr()
	case 5:
		g.tok("(")
		g.typ()
		g.tok(")")
		g.primary()
	case 6:
		g.tok("++", "--")
		g.target()
	case 7:
		g.word("comptime")
		g.primary()
	case 8:
		g.tok("&")
		g.tok("$a", "@b")
	default:
		g.primary()
	}
}

func (g *gen) primary() {
	if g.room <= 0 {
		g.tok("2", "$x", "@y", "tid")
		return
	}
	switch g.r.IntN(15) {
	case 0:
		g.tok("(")
		g.expr()
		g.tok(")")
	case 1:
		g.tok("(")
		g.expr()
		g.tok(",")
		g.list(",", 2, g.expr)
		g.tok(")")
	case 2:
		g.tok("(")
		g.tok("a")
		g.tok("=")
		g.expr()
		g.tok(")")
	case 3:
		g.tok("f", "printf", "let", "sizeof")
		g.tok("(")
		g.list(",", 3, g.expr)
		g.tok(")")
	case 4:
		g.block()
	case 5:
		g.ifExpr()
	case 6:
		g.primary()
		g.tok(".a", "->b", ".0", ".1")
	case 7:
		g.primary()
		g.tok("[")
		g.expr()
		g.tok("]")
	case 8:
		g.tok("sizeof", "typeinfo")
		g.tok("(")
		if g.r.IntN(2) == 0 {
			g.typ()
		} else {
			g.expr()
		}
		g.tok(")")
	case 9:
		g.tok("offsetof(struct a, b.c)", "offsetof($x, d)")
	case 10:
		g.target()
		g.tok("++", "--", "", "")
	default:
		g.tok("1", "0x1f", "5ms", "1e3", `"s\n"`, "true", "pid", "name", "$v", "@m", "$1", "$#",
			"else", "break")
	}
}

// TestFormatRandom is FuzzFormat with scripts that are mostly accepted.
func TestFormatRandom(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 1000
	}
	accepted := 0
	for seed := range n {
		g := &gen{r: rand.New(rand.NewPCG(uint64(seed), 1)), room: 60}
		g.script()
		src := g.b.String()
		f, err := Parse("stdin", []byte(src), nil)
		if err != nil {
			continue
		}
		accepted++
		once := Format(f)
		again, err := Parse("stdin", once, nil)
		switch {
		case err != nil:
			t.Errorf("seed %d: %s\nformatted is\n%s\nrefused:\n%s", seed, src, once, ErrorText(err))
		case !Equal(f, again):
			a, b := differs(f, again)
			t.Errorf("seed %d: %s\nformatted is another tree:\n%s\n%T %q\n%T %q", seed, src, once,
				a, a.At().Text(), b, b.At().Text())
		case !bytes.Equal(once, Format(again)):
			t.Errorf("seed %d: %s\nformatted once\n%s\ntwice\n%s", seed, src, once, Format(again))
		case comments(f) != comments(again):
			t.Errorf("seed %d: %s\nhas %d comments, formatted %d:\n%s", seed, src, comments(f),
				comments(again), once)
		}
		if t.Failed() {
			return
		}
	}
	if accepted < n/8 {
		t.Errorf("%d of %d scripts were accepted", accepted, n)
	}
}

func comments(f *File) (n int) {
	for _, s := range f.space {
		if s.comment {
			n++
		}
	}
	return n
}

// differs returns the first nodes that are not the same.
func differs(a, b Node) (Node, Node) {
	if nameOf(a) == nameOf(b) {
		var as, bs []Node
		a.children(func(n Node) Node { as = append(as, n); return nil })
		b.children(func(n Node) Node { bs = append(bs, n); return nil })
		for i := range min(len(as), len(bs)) {
			if !Equal(as[i], bs[i]) {
				return differs(as[i], bs[i])
			}
		}
	}
	return a, b
}
