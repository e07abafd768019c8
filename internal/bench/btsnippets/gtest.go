package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// token is a piece of C++: an identifier, a string (its value), or a byte.
type token struct {
	kind byte // 'i', 's', or the byte itself
	text string
	line int
}

// tokens splits C++ into tokens, as far as is needed to find strings.
func tokens(src string) []token {
	var list []token
	line := 1
	for i := 0; i < len(src); {
		c := src[i]
		start := i
		kind, text := c, ""
		switch {
		case c == '\n' || c == ' ' || c == '\t' || c == '\r':
			kind = 0
			i++
		case strings.HasPrefix(src[i:], "//"):
			kind = 0
			i += strings.IndexByte(src[i:]+"\n", '\n')
		case strings.HasPrefix(src[i:], "/*"):
			kind = 0
			i += strings.Index(src[i:], "*/") + 2
		case strings.HasPrefix(src[i:], `R"`):
			kind = 's'
			open := strings.IndexByte(src[i:], '(')
			end := ")" + src[i+2:i+open] + `"`
			n := strings.Index(src[i+open:], end)
			text = src[i+open+1 : i+open+n]
			i += open + n + len(end)
		case c == '"' || c == '\'':
			kind = 's'
			for i++; src[i] != c; i++ {
				if src[i] == '\\' {
					i++
				}
			}
			i++
			text = unquote(src[start+1 : i-1])
			if c == '\'' {
				kind = 'i'
			}
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			kind = 'i'
			for i < len(src) && (src[i] == '_' || src[i] >= 'a' && src[i] <= 'z' ||
				src[i] >= 'A' && src[i] <= 'Z' || src[i] >= '0' && src[i] <= '9') {
				i++
			}
			text = src[start:i]
		default:
			i++
		}
		if kind != 0 {
			list = append(list, token{kind, text, line})
		}
		line += strings.Count(src[start:i], "\n")
	}
	return list
}

func unquote(s string) string {
	s = strings.NewReplacer("\\\n", "", `\'`, `'`).Replace(s)
	if u, err := strconv.Unquote(`"` + s + `"`); err == nil {
		return u
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(s)
}

// snippets returns the calls of a row's functions in its tests.
func (r row) snippets(src string) []snippet {
	var list []snippet
	ts := tokens(src)
	for i := 0; i+5 < len(ts); i++ {
		if ts[i].kind != 'i' || !strings.HasPrefix(ts[i].text, "TEST") || ts[i+1].kind != '(' {
			continue
		}
		name := ts[i+2].text + "." + ts[i+4].text
		open := i + 6
		end := closing(ts, open)
		if !slices.Contains(r.machine, name) && !strings.Contains(name, "dwarf") {
			list = append(list, r.inTest(name, ts[open:end])...)
		}
		i = end - 1
	}
	return list
}

// closing returns the index after the bracket that closes the one at i.
func closing(ts []token, i int) int {
	depth := 0
	for ; i < len(ts); i++ {
		switch ts[i].kind {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

func (r row) inTest(name string, ts []token) []snippet {
	var list []snippet
	var params []string
	unsafe := false
	for i := 0; i+1 < len(ts); i++ {
		t := ts[i]
		if t.kind == 'i' && t.text == "safe_mode_" {
			unsafe = true
		}
		if t.kind != 'i' || ts[i+1].kind != '(' {
			continue
		}
		accept, refuse := slices.Contains(r.accept, t.text), slices.Contains(r.refuse, t.text)
		if t.text != "add_param" && !accept && !refuse {
			continue
		}
		end := closing(ts, i+1)
		args := arguments(ts[i+2 : end-1])
		if t.text == "add_param" {
			params = append(params, args[0].text)
			continue
		}
		sn := snippet{
			where: fmt.Sprintf("%s:%d", name, t.line), accepted: accept, partly: r.partly,
			passes: r.passes, params: params, process: t.text == "test_uprobe_lang",
		}
		if t.text == "test_macro_parse_failure" {
			sn.passes = []string{"macros"}
		}
		sn = sn.fill(args, unsafe)
		if r.types {
			if args[0].words == 1 && !args[0].constant && len(args) > 1 {
				args = args[1:]
			}
			sn.unsafe = false
			sn.typed(args, r.places)
			sn.says = r.says
			if t.text == "test_warning" {
				sn.accepted, sn.warning, sn.text = true, sn.text, ""
			}
		} else if r.outcomes {
			sn.outcome(args, t.text == "test_for_warning")
		}
		if r.after != "" {
			sn.src = strings.TrimSuffix(sn.src, ";")
		}
		sn.src = r.before + sn.src + r.after
		if r.types {
			sn.wants = wanted(ts[end:])
		}
		list = append(list, sn)
		i = end - 1
	}
	return list
}

// fill sets the script and the text from the arguments. The first argument may be a BPFtrace.
func (sn snippet) fill(args []argument, unsafe bool) snippet {
	if len(args) > 1 && !args[0].constant && args[0].words == 1 {
		args = args[1:]
		sn.unsafe = unsafe
	}
	if len(args) == 0 || !args[0].constant {
		return sn
	}
	sn.src, sn.constant = args[0].text, true
	if len(args) > 1 && !sn.process && (!sn.accepted || sn.partly) {
		sn.constant = args[1].constant
		if sn.text = strings.TrimPrefix(args[1].text, "\n"); sn.text != "" {
			sn.accepted = false
		}
	}
	return sn
}

// typed sets the expected result of the types from the arguments: Error{…}, Warning{…}, or
// texts in the place of these.
func (sn *snippet) typed(args []argument, places []string) {
	sn.accepted, sn.text, sn.partly, sn.passes = true, "", true, []string{"types"}
	if args[0].first == "" || args[0].constant {
		args = args[1:]
	}
	for i, a := range args {
		what := a.first
		if what == "" && i < len(places) && a.text != "" {
			what = places[i]
		}
		switch what {
		case "Error":
			sn.accepted, sn.text = false, strings.TrimPrefix(a.text, "\n")
		case "error", "error_str":
			sn.accepted = false
		case "Warning":
			sn.warning = strings.TrimPrefix(a.text, "\n")
		case "UnsafeMode", "false":
			sn.unsafe = true
		case "NoFeatures":
			sn.oldKernel = true
		case "expected_error", "std":
			sn.constant = false
		}
	}
}

// outcome sets the expected result of a pass from the arguments: true or 0, false or 1, and
// texts. The texts are of errors or, in tests of warnings, of warnings.
func (sn *snippet) outcome(args []argument, warns bool) {
	sn.accepted, sn.text, sn.partly = true, "", true
	if args[0].words == 1 && !args[0].constant && len(args) > 1 {
		args = args[1:]
	}
	for _, a := range args[1:] {
		switch text := strings.TrimPrefix(a.text, "\n"); {
		case a.first == "false" || a.first == "1":
			sn.accepted = false
		case text != "" && warns:
			sn.warning = text
		case text != "":
			sn.accepted, sn.text = false, text
		}
	}
}

// argument is a constant string, or the number of words of another expression.
type argument struct {
	text     string
	first    string // its first word
	constant bool
	words    int
}

func arguments(ts []token) []argument {
	var list []argument
	for len(ts) > 0 {
		end := 0
		for end < len(ts) && ts[end].kind != ',' {
			switch ts[end].kind {
			case '(', '{', '[':
				end = closing(ts, end)
			default:
				end++
			}
		}
		list = append(list, evaluate(ts[:end]))
		ts = ts[min(end+1, len(ts)):]
	}
	return list
}

// evaluate joins strings, also those joined by + and in std::string(…).
func evaluate(ts []token) argument {
	a := argument{constant: true}
	if len(ts) > 0 && ts[0].kind == 'i' {
		a.first = ts[0].text
	}
	for i, t := range ts {
		switch {
		case t.kind == 's':
			a.text += t.text
		case t.kind == '+' || t.kind == '(' || t.kind == ')' || t.kind == ':' || t.kind == '*':
		case t.kind == 'i' && (t.text == "std" || t.text == "string"):
		default:
			a.constant = false
			if i == 0 || ts[i-1].kind == '*' {
				a.words++
			} else {
				a.words += 2
			}
		}
	}
	a.constant = a.constant && len(ts) > 0
	return a
}
