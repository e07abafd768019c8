package syntax

import "strings"

// directive returns what follows a preprocessor line's name, if it has that name.
func directive(c *C, name string) (rest string, ok bool) {
	s, ok := strings.CutPrefix(c.Text, "#")
	if !ok {
		return "", false
	}
	s = strings.TrimLeft(s, " \t")
	if s, ok = strings.CutPrefix(s, name); !ok || s != "" && wordByte(s[0]) {
		return "", false
	}
	return strings.TrimSpace(s), true
}

func (p *parser) evaluate(f *File, defined func(string) bool) {}
