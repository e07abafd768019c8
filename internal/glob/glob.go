// Package glob matches names against the wildcards in targets.
package glob

import "strings"

// Match reports whether a name matches a pattern in the syntax of targets: * is any string, ?
// any byte, [a-z] a byte of a set, [!a-z] a byte not in it. Every name matches itself.
func Match(pattern, name string) bool {
	g := Compile(pattern)
	return pattern == name || g.Match(name)
}

// IsPattern reports whether a name contains wildcards.
func IsPattern(t string) bool { return strings.ContainsAny(t, "*?[") }

// Pattern is a compiled pattern: * is any string, ? any byte, [a-z] a byte of a set, [!a-z] a
// byte not in it. A bracket that is not closed matches itself. There is no escape: names of
// functions and probes contain no wildcards, except for Go's, which the function Match first
// compares literally.
type Pattern struct {
	pattern string
	literal bool
}

// Compile returns a compiled pattern. Every pattern is valid.
func Compile(pattern string) Pattern { return Pattern{pattern, !IsPattern(pattern)} }

// Match reports whether the pattern matches a name. It takes time proportional to at most the
// product of the lengths.
func (g *Pattern) Match(name string) bool {
	if g.literal {
		return g.pattern == name
	}
	p := g.pattern
	pi, ni := 0, 0
	star, mark := -1, 0
	for ni < len(name) {
		if pi < len(p) && p[pi] == '*' {
			star, mark = pi, ni
			pi++
			continue
		}
		if n, ok := matchByte(p[min(pi, len(p)):], name[ni]); ok {
			pi += n
			ni++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		pi, ni = star+1, mark
	}
	return strings.Trim(p[min(pi, len(p)):], "*") == ""
}

// matchByte matches c with the pattern's first element and returns the length of that.
func matchByte(p string, c byte) (int, bool) {
	if p == "" {
		return 0, false
	}
	switch p[0] {
	case '?':
		return 1, true
	case '[':
		end := strings.IndexByte(p[1:], ']')
		if end > 0 {
			return end + 2, inSet(p[1:1+end], c)
		}
	}
	return 1, p[0] == c
}

func inSet(set string, c byte) bool {
	neg := set[0] == '!' || set[0] == '^'
	if neg {
		set = set[1:]
	}
	found := false
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			found = found || set[i] <= c && c <= set[i+2]
			i += 2
			continue
		}
		found = found || set[i] == c
	}
	return found != neg
}
