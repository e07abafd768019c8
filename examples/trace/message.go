package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool/expr"
)

// message is a format with its values.
type message struct {
	goFormat string // in Go's verbs
	values   []value
}

// value is one value of a message: slot is its index among the event's texts, or its numbers.
type value struct {
	expr           *ir.Expr
	text, unsigned bool
	slot           int
}

// verb matches a verb of printf. The first group has its flags and width.
var verb = regexp.MustCompile(`%([-+ #0]*[0-9]*(?:\.[0-9]+)?)[hlqjzt]*([a-zA-Z%])`)

// parseMessage parses `"FORMAT", VALUE, ...`. Without text, the message is empty.
func parseMessage(spec expr.Spec) (*message, error) {
	m := new(message)
	if spec.Rest == "" {
		return m, nil
	}
	quoted, err := strconv.QuotedPrefix(spec.Rest)
	if err != nil {
		return nil, fmt.Errorf(`%s: a message begins with its "format"`, spec.Rest)
	}
	format, err := strconv.Unquote(quoted)
	if err != nil {
		return nil, err
	}
	rest := strings.TrimSpace(spec.Rest[len(quoted):])
	if rest != "" && rest[0] != ',' {
		return nil, fmt.Errorf("%s: a comma is wanted behind the format", rest)
	}
	values, err := expr.ParseList(strings.TrimPrefix(rest, ","), spec.Target)
	if err != nil {
		return nil, err
	}
	return m, m.convert(format, values)
}

// convert turns printf's verbs into Go's, and assigns a slot to every value.
func (m *message) convert(format string, values []*ir.Expr) error {
	var errs []error
	m.goFormat = verb.ReplaceAllStringFunc(format, func(s string) string {
		switch {
		case strings.HasSuffix(s, "%"):
			return "%%"
		case len(m.values) == len(values):
			errs = append(errs, fmt.Errorf("%s has no value", s))
			return s
		}
		v, goVerb, err := m.place(s, values[len(m.values)])
		errs = append(errs, err)
		m.values = append(m.values, v)
		return goVerb
	})
	var h hit
	switch numbers, texts := m.count(false), m.count(true); {
	case len(m.values) < len(values):
		errs = append(errs, fmt.Errorf("%v has no place in the format", values[len(m.values)]))
	case numbers > len(h.numbers()) || texts > len(h.texts()):
		errs = append(errs, fmt.Errorf("more than %d numbers or %d texts", len(h.numbers()),
			len(h.texts())))
	}
	return errors.Join(errs...)
}

// place returns the next value, which verb s prints, and its verb in Go.
func (m *message) place(s string, x *ir.Expr) (v value, goVerb string, err error) {
	part := verb.FindStringSubmatch(s)
	flags, kind := part[1], part[2]
	v = value{
		expr: x, text: kind == "s", unsigned: kind != "d" && kind != "i",
		slot: m.count(kind == "s"),
	}
	switch {
	case !strings.Contains("sdiuxXocp", kind):
		err = fmt.Errorf("%s is not known", s)
	case v.text && !expr.Text(x):
		v.expr = &ir.Expr{Op: ir.OpStr, Type: ir.StringType(expr.DefaultText), Args: []*ir.Expr{x}}
	case !v.text && expr.Text(x):
		err = fmt.Errorf("%s: %v is text", s, x)
	}
	switch kind {
	case "i", "u":
		kind = "d"
	case "p":
		flags, kind = "#"+flags, "x"
	}
	return v, "%" + flags + kind, err
}

// count returns the number of values that are texts, or that are numbers.
func (m *message) count(text bool) (n int) {
	for _, v := range m.values {
		if v.text == text {
			n++
		}
	}
	return n
}

// bind makes the program store the values in an event.
func (m *message) bind(h *hit, b *action.Bind) {
	for _, v := range m.values {
		if v.text {
			b.Set(h.texts()[v.slot], v.expr)
		} else {
			b.Set(h.numbers()[v.slot], v.expr)
		}
	}
}

// format formats the message of an event.
func (m *message) format(h *hit) string {
	var args []any
	for _, v := range m.values {
		switch {
		case v.text:
			args = append(args, action.Text(h.texts()[v.slot][:]))
		case v.unsigned:
			args = append(args, *h.numbers()[v.slot])
		default:
			args = append(args, int64(*h.numbers()[v.slot]))
		}
	}
	return fmt.Sprintf(m.goFormat, args...)
}
