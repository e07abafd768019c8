// Package escape makes untrusted text safe for its output. Names of files, threads,
// functions and probes are chosen by their owners, and a program that runs as root prints
// them to a terminal, into a log, a web page, a metric. There is one function for each kind
// of output: Terminal, Folded, Markup, Label, JSON. Command-line programs print with
// probe/tool/cli.Output, which uses this package.
//
//	escape.Fprintf(os.Stderr, "%-16s %s\n", comm, path)
//
// No function fails: characters that cannot be shown are replaced. All functions are safe
// for concurrent use.
package escape

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxText bounds one text in a line, in bytes. C++ has names of some thousand.
const maxText = 64 << 10

// acts reports whether a terminal, an editor or a reader of lines acts on a
// character instead of showing it: C0 and C1 controls, separators of lines, what
// turns the direction of writing round, and other characters without a shape of
// their own (soft hyphen, byte order mark, zero-width joiners, tags, variation
// selectors, fillers), with which two names look alike. Joiners and selectors
// belong to the spelling of some languages and of emoji. They are replaced there,
// too: a name on a terminal identifies a thing, and need not be beautiful.
func acts(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' '
	case r < 0xa0:
		return true
	case r < 0x0300: // Latin letters and signs, the bulk of what is not ASCII
		return r == '\u00ad'
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point)
}

// plain reports whether s is printable ASCII, as nearly all names are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// cut bounds a text.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// Terminal returns s as one line of a terminal, a table or a log. It has '?' for each
// character that a terminal acts on, and U+FFFD for each byte that is not UTF-8, so the
// width is kept. Text beyond 64 KiB is cut off.
func Terminal(s string) string {
	s = cut(s)
	if plain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if acts(r) {
			return '?'
		}
		return r
	}, s)
}

// Lines is Terminal for text of several lines that the program itself laid out, a usage page
// or a table: line feeds and tabs stay.
func Lines(s string) string {
	all := strings.SplitAfter(s, "\n")
	for i, line := range all {
		body, end := strings.CutSuffix(line, "\n")
		cells := strings.Split(body, "\t")
		for j := range cells {
			cells[j] = Terminal(cells[j])
		}
		if all[i] = strings.Join(cells, "\t"); end {
			all[i] += "\n"
		}
	}
	return strings.Join(all, "")
}

// Frame returns a frame of a folded stack: a ';' becomes ':', characters that Terminal
// replaces become blanks, and blanks at the ends are left out. In the last frame of a line,
// a number at the end is joined to the rest: "worker 12" would be read as a stack "worker"
// with two counts. An empty name becomes "[unknown]".
func Frame(s string, last bool) string {
	s = cut(s)
	if !plain(s) || strings.Contains(s, ";") {
		s = strings.Map(frameRune, s)
	}
	s = strings.TrimSpace(s)
	if last {
		s = joinTrailingNumber(s)
	}
	if s == "" {
		return "[unknown]"
	}
	return s
}

func frameRune(r rune) rune {
	switch {
	case r == ';':
		return ':'
	case acts(r):
		return ' '
	case r == '\ufffe', r == '\uffff': // not allowed in XML, which folded stacks become
		return utf8.RuneError
	}
	return r
}

func joinTrailingNumber(s string) string {
	i := len(s)
	for i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
		i--
	}
	if i == len(s) || i == 0 || s[i-1] != ' ' {
		return s
	}
	return strings.TrimRight(s[:i], " ") + "_" + s[i:]
}

// Folded returns a folded stack, outermost frame first, without its count.
func Folded(frames ...string) string {
	safe := make([]string, len(frames))
	for i, f := range frames {
		safe[i] = Frame(f, i == len(frames)-1)
	}
	return strings.Join(safe, ";")
}

var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'",
	"&apos;")

// Markup returns s as text of XML and HTML, between tags and within quotes. Line feeds and
// tabs stay.
func Markup(s string) string {
	return markup.Replace(strings.Map(func(r rune) rune {
		if acts(r) && r != '\n' && r != '\t' || r == '\ufffe' || r == '\uffff' {
			return utf8.RuneError
		}
		return r
	}, s))
}

var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Label returns s as the value of a label in Prometheus' text format, with its quotes. The
// format has three escapes and carries any other UTF-8 unchanged. Characters that a
// terminal acts on are replaced, because people read the page on one.
func Label(s string) string {
	return `"` + label.Replace(strings.Map(func(r rune) rune {
		if acts(r) && r != '\n' {
			return utf8.RuneError
		}
		return r
	}, cut(s))) + `"`
}

// JSON escapes, in a JSON text, the characters that package encoding/json leaves unchanged
// although a terminal acts on them or does not show them: DEL, C1, directions, joiners. In
// JSON such characters are in strings only, so the meaning of the text stays the same.
func JSON(b []byte) []byte {
	first := 0
	for first < len(b) && b[first] < 0x7f {
		first++
	}
	if first == len(b) {
		return b
	}
	out := append(make([]byte, 0, len(b)+16), b[:first]...)
	for rest := b[first:]; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r >= 0x7f && acts(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		} else {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// Safe reports whether a line is UTF-8 and has no characters that a terminal acts on.
func Safe(line string) bool {
	return utf8.ValidString(line) && !strings.ContainsFunc(line, acts)
}
