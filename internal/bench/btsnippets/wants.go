package main

import (
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// want is a type that a test expects: of a variable, or of a map's key or value.
type want struct {
	what string // var_type, map_key_type, map_val_type
	name string
	text string // of the type
}

// wanted parses the EXPECT_EQ lines that follow a test's call, up to the next call.
func wanted(ts []token) []want {
	var list []want
	for i := 0; i+8 < len(ts); i++ {
		switch t := ts[i]; {
		case t.kind == 'i' && t.text == "test":
			return list
		case t.text == "EXPECT_EQ" && ts[i+1].kind == '(' && ts[i+3].kind == '(' && ts[i+6].kind == 's':
			end := closing(ts, i+1)
			if ts[i+7].kind != ')' {
				continue
			}
			text, _, ok := created(ts[i+9 : end-1])
			if ok {
				list = append(list, want{ts[i+2].text, ts[i+6].text, text})
			}
		}
	}
	return list
}

// created returns the text of the type that Create… calls make, and the tokens after them.
func created(ts []token) (text string, rest []token, ok bool) {
	if len(ts) < 3 || ts[1].kind != '(' {
		return "", nil, false
	}
	end := closing(ts, 1)
	name, args, rest := strings.TrimPrefix(ts[0].text, "Create"), ts[2:end-1], ts[end:]
	switch name {
	case "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Bool":
		return strings.ToLower(name), rest, true
	case "String":
		if len(args) == 1 {
			return "string[" + args[0].text + "]", rest, true
		}
	case "Count":
		return "count_t", rest, true
	case "Pointer":
		if elem, _, ok := created(args); ok {
			return elem + " *", rest, true
		}
	case "Array":
		if elem, _, ok := created(args[2:]); ok {
			if _, err := strconv.Atoi(args[0].text); err == nil {
				return elem + "[" + args[0].text + "]", rest, true
			}
		}
	case "Tuple":
		return tupleText(args, rest)
	}
	return "", nil, false
}

// tupleText returns the text of CreateTuple(Struct::CreateTuple({ … })), and the tokens after
// it.
func tupleText(args, rest []token) (string, []token, bool) {
	for len(args) > 0 && args[0].kind != '{' {
		args = args[1:]
	}
	if len(args) == 0 {
		return "", nil, false
	}
	args = args[1 : closing(args, 0)-1]
	var elems []string
	for len(args) > 0 {
		elem, after, ok := created(args)
		if !ok {
			return "", nil, false
		}
		elems = append(elems, elem)
		if args = after; len(args) > 0 && args[0].kind == ',' {
			args = args[1:]
		}
	}
	return "(" + strings.Join(elems, ",") + ")", rest, true
}

// compareTypes compares the types that a test checks.
func (s *score) compareTypes(sn snippet, p *types.Script) {
	for _, w := range sn.wants {
		key, value := p.Map(w.name)
		got := ""
		switch w.what {
		case "map_key_type":
			got = key.String()
		case "map_val_type":
			got = value.String()
		case "var_type":
			for n := range syntax.All(p.File) {
				if v, ok := n.(*syntax.Variable); ok && v.Name == w.name && got == "" {
					got = p.Type(v).String()
				}
			}
		default:
			continue
		}
		s.asked++
		if got == w.text {
			s.answered++
		} else {
			s.differs(sn, "%s of %s is %s, want %s", w.what, w.name, got, w.text)
		}
	}
}
