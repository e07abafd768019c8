package main

import (
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/tool/spec"
)

// fits returns an error if an event has no room for the values of a probe.
func (tr *tracer) fits(p *spec.Probe) error {
	var h hit
	texts := 0
	for _, v := range p.Values {
		if v.IsText() {
			texts++
		}
	}
	if numbers := len(p.Values) - texts; numbers > len(h.numbers()) || texts > len(h.texts()) {
		return tr.Usagef("%s: more than %d numbers or %d texts", p.Text, len(h.numbers()), len(h.texts()))
	}
	return nil
}

// bind makes the program store values in an event.
func bind(h *hit, b *action.Bind, values []spec.Value, computed []*ir.Expr) {
	numbers, texts := h.numbers(), h.texts()
	for i, v := range values {
		if v.IsText() {
			b.Set(texts[0], computed[i])
			texts = texts[1:]
		} else {
			b.Set(numbers[0], computed[i])
			numbers = numbers[1:]
		}
	}
}

// message formats the message of an event.
func message(h *hit, p *spec.Probe) string {
	numbers, texts := h.numbers(), h.texts()
	var values []any
	for _, v := range p.Values {
		if v.IsText() {
			values = append(values, v.String(texts[0][:]))
			texts = texts[1:]
		} else {
			values = append(values, v.Number(*numbers[0]))
			numbers = numbers[1:]
		}
	}
	return p.Message(values)
}
