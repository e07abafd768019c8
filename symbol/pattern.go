package symbol

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Pattern selects names. It is immutable.
type Pattern struct {
	text    string
	exact   bool
	re      *regexp.Regexp
	literal []byte // contained in every raw name that can match; for a glob, if not mangled
}

// Exact returns a pattern that matches one name.
func Exact(name string) *Pattern {
	return &Pattern{text: name, exact: true, literal: []byte(lastIdentifier(name))}
}

// glob returns a pattern in shell syntax: * matches any characters, ? one, [a-z] and [!a-z] one
// of a set; \ quotes the next character.
func glob(pattern string) (*Pattern, error) {
	expr, literal, special, err := globExpr(pattern)
	if err != nil {
		return nil, err
	}
	if !special {
		p := Exact(literal)
		p.text = literal
		return p, nil
	}
	re, err := regexp.Compile("^(?s:" + expr + ")$")
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return &Pattern{text: pattern, re: re, literal: []byte(literal)}, nil
}

// regexpPattern matches names in which re finds a match.
func regexpPattern(re *regexp.Regexp) *Pattern {
	return &Pattern{text: "/" + re.String() + "/", re: re}
}

// ParsePattern returns the pattern of s: "/re/" is a regular expression, anything else a
// glob.
func ParsePattern(s string) (*Pattern, error) {
	if len(s) > 2 && s[0] == '/' && s[len(s)-1] == '/' {
		re, err := regexp.Compile(s[1 : len(s)-1])
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", s, err)
		}
		return regexpPattern(re), nil
	}
	return glob(s)
}

// String returns the pattern in the syntax of ParsePattern.
func (p *Pattern) String() string {
	if !p.exact {
		return p.text
	}
	var b strings.Builder
	for i := range len(p.text) {
		if strings.IndexByte(`*?[\`, p.text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(p.text[i])
	}
	return b.String()
}

// globExpr returns the regular expression of a glob. If special is false, literal is the text
// that the glob stands for, else the longest text that all matches contain.
func globExpr(p string) (expr, literal string, special bool, err error) {
	var e, lit strings.Builder
	longest := ""
	wild := func(expr string) {
		special = true
		e.WriteString(expr)
		if lit.Len() > len(longest) {
			longest = lit.String()
		}
		lit.Reset()
	}
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '*':
			wild(".*")
		case '?':
			wild(".")
		case '[':
			end := strings.IndexByte(p[i+1:], ']')
			if end <= 0 {
				return "", "", false, fmt.Errorf("pattern %q: [ without ]", p)
			}
			set := p[i+1 : i+1+end]
			if set[0] == '!' || set[0] == '^' {
				wild("[^" + strings.ReplaceAll(set[1:], `\`, `\\`) + "]")
			} else {
				wild("[" + strings.ReplaceAll(set, `\`, `\\`) + "]")
			}
			i += end + 1
		case '\\':
			if i++; i == len(p) {
				return "", "", false, fmt.Errorf("pattern %q: \\ at the end", p)
			}
			c = p[i]
			e.WriteString(regexp.QuoteMeta(string(c)))
			lit.WriteByte(c)
		default:
			e.WriteString(regexp.QuoteMeta(p[i : i+1]))
			lit.WriteByte(c)
		}
	}
	if lit.Len() < len(longest) {
		return e.String(), longest, special, nil
	}
	return e.String(), lit.String(), special, nil
}

// lastIdentifier returns the last identifier of a name, without parameters and
// template arguments: every mangled form contains it.
func lastIdentifier(name string) string {
	if i := strings.IndexAny(name, "(<["); i > 0 {
		name = name[:i]
	}
	i := len(name)
	for i > 0 && isIdent(name[i-1]) {
		i--
	}
	return name[i:]
}

func isIdent(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// matchString reports whether a readable name matches.
func (p *Pattern) matchString(s string) bool {
	if p.exact {
		return s == p.text
	}
	return p.re.MatchString(s)
}

// match reports whether a raw name, without its version, matches as it is or in
// its readable form, with or without parameters.
func (p *Pattern) match(raw []byte, full, short *Demangler) bool {
	if p == nil {
		return true
	}
	if p.exact {
		if string(raw) == p.text {
			return true
		}
		if len(p.literal) > 0 && !bytes.Contains(raw, p.literal) {
			return false
		}
	} else if len(p.literal) > 0 && !bytes.Contains(raw, p.literal) && !mangled(raw) {
		return false
	} else if p.re.Match(raw) {
		return true
	}
	if !mangled(raw) || len(raw) > maxMangled {
		return false
	}
	name := string(raw)
	return p.matchString(short.demangle(name)) || p.matchString(full.demangle(name))
}
