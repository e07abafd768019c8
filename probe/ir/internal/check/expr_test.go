package check

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// typeExpr returns an expression with types. Its variables have the types with which they were made.
func typeExpr(t *testing.T, e *ir.Expr) (*typed.Node, error) {
	t.Helper()
	plan := &probe.Plan{Programs: []probe.ProgramPlan{{Name: "p"}}}
	c, err := newChecker(&ir.Program{Actions: make([]ir.Action, 1)}, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	var bind func(e *ir.Expr)
	bind = func(e *ir.Expr) {
		if e == nil {
			return
		}
		if e.Var != nil {
			c.vars[e.Var] = e.Var
		}
		for _, a := range e.Args {
			bind(a)
		}
	}
	bind(e)
	return c.expr(e)
}

func op(o ir.Op, args ...*ir.Expr) *ir.Expr { return &ir.Expr{Op: o, Args: args} }

// in is an operation that is computed in a type.
func in(t ir.Type, o ir.Op, args ...*ir.Expr) *ir.Expr { return &ir.Expr{Op: o, Type: t, Args: args} }

func number64(v int64) *ir.Expr { return ir.NewConst(v) }

// constant is a number of a type.
func constant(t ir.Type, v int64) *ir.Expr { return &ir.Expr{Op: ir.OpConst, Type: t, Int: v} }

func variable(t ir.Type) *ir.Expr { return &ir.Expr{Op: ir.OpVar, Var: &ir.Var{Name: "x", Type: t}} }

func str(s string) *ir.Expr { return &ir.Expr{Op: ir.OpString, Str: s} }

// search is an operation with a text of its own.
func search(o ir.Op, what string, arg *ir.Expr) *ir.Expr {
	return &ir.Expr{Op: o, Str: what, Args: []*ir.Expr{arg}}
}

var (
	u8     = variable(ir.IntType(1, false))
	s8     = variable(ir.IntType(1, true))
	u32    = variable(ir.IntType(4, false))
	s32    = variable(ir.IntType(4, true))
	u64    = variable(ir.Uint64Type())
	s64    = variable(ir.Int64Type())
	ptr    = variable(ir.PtrType(nil, false))
	yes    = variable(ir.BoolType())
	text16 = variable(ir.StringType(16))
	text32 = variable(ir.StringType(32))
	buf16  = variable(ir.BytesType(16))
	buf6   = variable(ir.BytesType(6))
)

// notConst stands for an expression that is no constant.
const notConst = 1 << 40

func TestExprTypes(t *testing.T) {
	for _, c := range []struct {
		what string
		e    *ir.Expr
		typ  string
		k    int64 // the constant that it is folded to
	}{
		// As in C, but computed in 64 bits: a signed number unless one operand has 64 unsigned bits.
		{"u8+u8", op(ir.OpAdd, u8, u8), "s64", notConst},
		{"u32+s32", op(ir.OpAdd, u32, s32), "s64", notConst},
		{"u64+s8", op(ir.OpAdd, u64, s8), "u64", notConst},
		{"ptr+8", op(ir.OpAdd, ptr, number64(8)), "u64", notConst},
		{"u64+(-1)", op(ir.OpAdd, u64, number64(-1)), "u64", notConst},
		{"s64+1", op(ir.OpAdd, s64, number64(1)), "s64", notConst},
		{"s64+1u", op(ir.OpAdd, s64, constant(ir.Uint64Type(), 1)), "u64", notConst},
		{"bool+1", op(ir.OpAdd, yes, number64(1)), "s64", notConst},
		{"in u8", in(ir.IntType(1, false), ir.OpAdd, u32, u32), "u8", notConst},
		{"-u8", op(ir.OpNeg, u8), "s64", notConst},
		{"-u64", op(ir.OpNeg, u64), "u64", notConst},
		{"~s8", op(ir.OpNot, s8), "s64", notConst},
		// The count of a shift has no part in its type.
		{"s32<<u64", op(ir.OpShl, s32, u64), "s64", notConst},
		{"u64>>s32", op(ir.OpShr, u64, s32), "u64", notConst},

		{"200+100", op(ir.OpAdd, number64(200), number64(100)), "s64", 300},
		{"200+100 in u8", in(ir.IntType(1, false), ir.OpAdd, number64(200), number64(100)), "u8", 44},
		{"100+100 in s8", in(ir.IntType(1, true), ir.OpAdd, number64(100), number64(100)), "s8", -56},
		{"7/0", op(ir.OpDiv, number64(7), number64(0)), "s64", 0},
		{"7%0", op(ir.OpMod, number64(7), number64(0)), "s64", 7},
		{"-7/2", op(ir.OpDiv, number64(-7), number64(2)), "s64", -3},
		{"-7%2", op(ir.OpMod, number64(-7), number64(2)), "s64", -1},
		{"-8>>1", op(ir.OpShr, number64(-8), number64(1)), "s64", -4},
		{"1<<65", op(ir.OpShl, number64(1), number64(65)), "s64", 2},
		{"-(1)", op(ir.OpNeg, number64(1)), "s64", -1},
		{"~0", op(ir.OpNot, number64(0)), "s64", -1},
		{"u64+-(1)", op(ir.OpAdd, u64, op(ir.OpNeg, number64(1))), "u64", notConst},

		{"u32==s32", op(ir.OpEq, u32, s32), "bool", notConst},
		{"ptr==ptr", op(ir.OpEq, ptr, ptr), "bool", notConst},
		{"ptr==0", op(ir.OpEq, ptr, number64(0)), "bool", notConst},
		{"u8<255", op(ir.OpLt, u8, number64(255)), "bool", notConst},
		{"u64==-1", op(ir.OpEq, u64, number64(-1)), "bool", notConst},
		{"u8<0, typed", op(ir.OpLt, u8, constant(ir.IntType(4, true), 0)), "bool", notConst},
		{"1<2", op(ir.OpLt, number64(1), number64(2)), "bool", 1},
		{"-1<1u", op(ir.OpLt, number64(-1), constant(ir.Uint64Type(), 1)), "bool", 0},
		{"str16==str32", op(ir.OpEq, text16, text32), "bool", notConst},
		{"str==literal", op(ir.OpEq, text16, str("sh")), "bool", notConst},
		{"literals", op(ir.OpNe, str("a"), str("b")), "bool", 1},
		{"buf==buf", op(ir.OpEq, buf6, buf6), "bool", notConst},

		{"u8&&ptr", op(ir.OpLAnd, u8, ptr), "bool", notConst},
		{"0&&x", op(ir.OpLAnd, number64(0), u8), "bool", 0},
		{"1||x", op(ir.OpLOr, number64(1), u8), "bool", 1},
		{"0||x", op(ir.OpLOr, number64(0), u8), "bool", notConst},
		{"!2", op(ir.OpLNot, number64(2)), "bool", 0},

		{"x?u8:s32", op(ir.OpCond, yes, u8, s32), "s64", notConst},
		{"x?u8:u8", op(ir.OpCond, yes, u8, u8), "u8", notConst},
		{"x?str16:str32", op(ir.OpCond, yes, text16, text32), "str[32]", notConst},
		{"1?5:6", op(ir.OpCond, number64(1), number64(5), number64(6)), "s64", 5},

		{"(u8)300", in(ir.IntType(1, false), ir.OpCast, number64(300)), "u8", 44},
		{"(s8)200", in(ir.IntType(1, true), ir.OpCast, number64(200)), "s8", -56},
		{"(bool)7", in(ir.BoolType(), ir.OpCast, number64(7)), "bool", 1},
		{"(u8)u64", in(ir.IntType(1, false), ir.OpCast, u64), "u8", notConst},
		{"(str8)\"ab\"", in(ir.StringType(8), ir.OpCast, str("ab")), "str[8]", notConst},
		{"bswap(u32)", op(ir.OpBswap, u32), "u32", notConst},
		{"bswap(0x0102)", op(ir.OpBswap, constant(ir.IntType(2, false), 0x0102)), "u16", 0x0201},
		{"bswap(u8)", op(ir.OpBswap, u8), "u8", notConst},

		{"(1, u8)", op(ir.OpTuple, number64(1), u8), "(s64, u8)", notConst},
		{"(1, u8).1", &ir.Expr{Op: ir.OpElem, Int: 1, Args: []*ir.Expr{op(ir.OpTuple, number64(1), u8)}}, "u8", notConst},

		{"\"abc\"", str("abc"), "str[4]", notConst},
		{"len(str)", op(ir.OpLen, text16), "u32", notConst},
		{"has prefix", search(ir.OpHasPrefix, "sh", text16), "bool", notConst},
		{"prefix too long", search(ir.OpHasPrefix, strings.Repeat("x", 16), text16), "bool", 0},
		{"empty prefix", search(ir.OpHasPrefix, "", text16), "bool", 1},
		{"index too long", search(ir.OpIndexOf, strings.Repeat("x", 16), text16), "s64", -1},
		{"index of nothing", search(ir.OpIndexOf, "", text16), "s64", 0},
		{"glob", search(ir.OpGlob, "a*", text16), "bool", notConst},
		{"glob *", search(ir.OpGlob, "*", text16), "bool", 1},
		{"strncmp", &ir.Expr{Op: ir.OpStrncmp, Int: 4, Args: []*ir.Expr{text16, text32}}, "u32", notConst},
		{"memcmp", &ir.Expr{Op: ir.OpMemcmp, Int: 6, Args: []*ir.Expr{buf6, buf16}}, "s32", notConst},
	} {
		x, err := typeExpr(t, c.e)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		k := int64(notConst)
		if x.Const() {
			k = x.Int
		}
		if got := x.Type.String(); got != c.typ || k != c.k {
			t.Errorf("%s: %s, constant %d; want %s, %d", c.what, got, k, c.typ, c.k)
		}
	}
}

// TestExprRefused: what has no meaning is refused, with words for why.
func TestExprRefused(t *testing.T) {
	deep := number64(1)
	for range ir.MaxDepth + 1 {
		deep = op(ir.OpNeg, deep)
	}
	for _, c := range []struct {
		what string
		e    *ir.Expr
		err  string
	}{
		{"missing operand", op(ir.OpAdd, u8, nil), "missing expression"},
		{"one operand", op(ir.OpAdd, u8), "1 operands"},
		{"no operation", op(ir.OpInvalid), "no such operation"},
		{"front end's words", &ir.Expr{Op: ir.OpInvalid, Str: "not here"}, "not here"},
		{"too deep", deep, "nested more than"},
		{"unset variable", op(ir.OpAdd, &ir.Expr{Op: ir.OpVar, Var: nil}, u8), "used before it is set"},
		{"text+1", op(ir.OpAdd, text16, number64(1)), "not a number"},
		{"in text", in(ir.StringType(4), ir.OpAdd, u8, u8), "arithmetic in str[4]"},
		{"text&&1", op(ir.OpLAnd, text16, u8), "not a condition"},
		{"text<text", op(ir.OpLt, text16, text16), "only == and != compare it"},
		{"text==1", op(ir.OpEq, text16, number64(1)), "comparison of str[16] with s64"},
		{"buf==buf", op(ir.OpEq, buf6, buf16), "comparison of buf[6] with buf[16]"},
		{"u8==256", op(ir.OpEq, u8, number64(256)), "an unsigned number of 8 bits, 0 to 255: it is never 256"},
		{"u8<0", op(ir.OpLt, u8, number64(0)), "it is never below 0"},
		{"0<=u8", op(ir.OpLe, number64(0), u8), "it is always at least 0"},
		{"s8>127", op(ir.OpGt, s8, number64(127)), "it is never above 127"},
		{"s8!=-129", op(ir.OpNe, s8, number64(-129)), "always different from -129"},
		{"u64<-1", op(ir.OpLt, u64, number64(-1)), "never below -1"},
		{"hint", &ir.Expr{Op: ir.OpLt, Str: "(long)%s", Args: []*ir.Expr{u64, number64(0)}}, "(long)$x is signed"},
		{"bool==2", op(ir.OpEq, yes, number64(2)), "never 2"},
		{"alternatives", op(ir.OpCond, yes, text16, u8), "alternatives of str[16] and u8"},
		{"condition", op(ir.OpCond, text16, u8, u8), "not a condition"},
		{"text to number", in(ir.IntType(4, true), ir.OpCast, text16), "is str[16], not s32"},
		{"bswap of any number", op(ir.OpBswap, number64(1)), "integer of known width"},
		{"number of text", constant(ir.StringType(4), 1), "str[4] is not a number"},
		{"long text", &ir.Expr{Op: ir.OpString, Str: "abcd", Type: ir.StringType(4)}, "4 bytes of text do not fit str[4]"},
		{"NUL", str("a\x00b"), "NUL byte"},
		{"wide tuple", op(ir.OpTuple, variable(ir.StringType(ir.MaxMemory)), u64), "tuple of"},
		{"element of a number", &ir.Expr{Op: ir.OpElem, Args: []*ir.Expr{u8}}, "not a tuple"},
		{"third of two", &ir.Expr{Op: ir.OpElem, Int: 2, Args: []*ir.Expr{op(ir.OpTuple, u8, u8)}}, "has no element"},
		{"elements", in(ir.TupleType(ir.Field{Type: ir.Int64Type()}, ir.Field{Type: ir.Int64Type()}), ir.OpTuple, u8), "1 elements for"},
		{"length of a number", op(ir.OpLen, u8), "not text"},
		{"strncmp of 0", &ir.Expr{Op: ir.OpStrncmp, Args: []*ir.Expr{text16, text16}}, "strncmp of 0 bytes"},
		{"memcmp beyond", &ir.Expr{Op: ir.OpMemcmp, Int: 7, Args: []*ir.Expr{buf6, buf16}}, "memcmp of 7 bytes"},
		{"glob", search(ir.OpGlob, "[a", text16), "no ]"},
		{"range of a glob", search(ir.OpGlob, "[z-a]", text16), "range z-a"},
		{"long glob", search(ir.OpGlob, strings.Repeat("a", maxGlob+1), text16), "more than 62 characters"},
		{"stack depth", &ir.Expr{Op: ir.OpKstack, Int: 513}, "want 1 to 512"},
		{"stack skip", &ir.Expr{Op: ir.OpKstack, Int: 5, Skip: 256}, "want 0 to 255"},
		{"map", op(ir.OpMapGet), "missing map"},
	} {
		if x, err := typeExpr(t, c.e); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want an error with %q", c.what, x, err, c.err)
		}
	}
}

// TestGlob compares patterns with the texts that they match.
func TestGlob(t *testing.T) {
	for pattern, texts := range map[string]string{
		"":           " ",
		"abc":        "abc -ab -abcd",
		"a*":         "a ab -ba",
		"*a":         "a ba -ab",
		"*b*":        "b abc -ac",
		"a?c":        "abc aXc -ac -abbc",
		"[a-c]x":     "ax cx -dx",
		"[!a-c]x":    "dx -ax",
		"[]]":        "] -a",
		"[a-]":       "a - -b",
		"*ab*ab*":    "abab xabyabz -abxa",
		"a**b":       "ab axb -a",
		"[!]x]":      "a -] -x",
		"*.so.[0-9]": "libc.so.6 -libc.so -libc.so.x",
	} {
		g, err := ParseGlob(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		for _, text := range strings.Split(texts, " ") {
			text, no := strings.CutPrefix(text, "-")
			if text == "" && no { // the text "-"
				text, no = "-", false
			}
			if got := g.Match([]byte(text)); got == no {
				t.Errorf("%q matches %q: %v", pattern, text, got)
			}
		}
	}
}
