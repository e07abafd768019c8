package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/tool"
)

// Options are the options of [Parse]. The zero value and nil are the default.
type Options struct {
	// PID is the process that user probes are restricted to; 0 is none. Other probes need tool.FilterPID.
	PID int
	// Printf is set if what follows the filter are the arguments of printf(): a format, and its values.
	Printf bool
	// MaxText is the most bytes of a text, without a NUL at its end; 0 is 63. A text of so many may have
	// been cut.
	MaxText int
}

// Probe is a probe of the command line.
type Probe struct {
	// Text is what the user wrote.
	Text string `json:"text"`
	// Target is the target of the text, which may be a pattern.
	Target probe.Target `json:"-"`
	// Format is the format of printf, "" if there is none.
	Format string `json:"format,omitempty"`
	// Values are the values of each action.
	Values []Value `json:"values,omitempty"`
	// Actions are what is attached: one, or several if the target is a pattern and the values are not computed
	// alike at its matches, such as probe. Unless tool.Tool.Attaches their values are constants.
	Actions []Action `json:"-"`

	resolve probe.Options
	printer *output.Printer
}

// Action is what happens at a target.
type Action struct {
	Target probe.Target
	// Values are what the action computes, after Run: one for each of the probe's.
	Values []*ir.Expr

	body []*ir.Stmt
}

// Run ends an action unless the filter holds, and computes what the values need.
func (a *Action) Run(c *action.Ctx) {
	for _, s := range a.body {
		c.Do(s)
	}
}

// DefaultText is the size of a text of Options.MaxText's default with a NUL.
const DefaultText = 64

// Parse parses probes, each TARGET [/FILTER/] [VALUE, ...]: a target as tool.ParseTarget takes it, which ends
// at the first blank outside quotes, and expressions. A filter ends at the first slash before a blank or the
// text's end. What recordings have of the probes is kept by the tool (tool.Tool.Kept). o may be nil.
//
// An error is one of tool.Tool.Usagef with the column of the mistake or, if privileges lack to say what
// expressions mean, that of tool.Tool.Explain.
func Parse(t *tool.Tool, texts []string, o *Options) ([]*Probe, error) {
	if o == nil {
		o = &Options{}
	}
	var list []*Probe
	for _, text := range texts {
		p, err := parse(t, text, o)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if !t.Replaying() {
		return list, t.Kept(&list)
	}
	var were []*Probe
	if err := t.Kept(&were); err != nil {
		return nil, err
	}
	if !slices.EqualFunc(list, were, func(a, b *Probe) bool { return a.Text == b.Text }) {
		return nil, fmt.Errorf("the recording has other probes: %s", strings.Join(textsOf(were), ", "))
	}
	for i, p := range list {
		p.Format = were[i].Format
		p.setValues(were[i].Values)
	}
	return list, nil
}

// setValues gives a probe that is not attached values, and its action constants of their kinds.
func (p *Probe) setValues(values []Value) {
	p.Values = values
	for _, v := range values {
		none := ir.NewConst(0)
		if v.IsText() {
			none = ir.NewString("")
		}
		p.Actions[0].Values = append(p.Actions[0].Values, none)
	}
}

func textsOf(list []*Probe) (texts []string) {
	for _, p := range list {
		texts = append(texts, p.Text)
	}
	return texts
}

// parse parses a probe. In a replay it has no values.
func parse(t *tool.Tool, text string, o *Options) (*Probe, error) {
	s, err := split(text)
	if err != nil {
		return nil, t.Usagef("%w", err)
	}
	target, err := tool.ParseTarget(text[s.Target.Start:s.Target.End], o.PID)
	if err != nil {
		return nil, t.Usagef("%w", err)
	}
	s.Printf = o.Printf
	if rest := text[s.Values.Start:s.Values.End]; s.Printf && rest != "" && rest[0] != '"' {
		return nil, t.Usagef("%w", &mistake{text, s.Values.Start, `a message begins with its "format"`})
	}
	p := &Probe{Text: text, Target: target, Actions: []Action{{Target: target}}, printer: output.New(nil, nil)}
	switch {
	case t.Replaying():
		return p, nil
	case !t.Attaches(): // -requires, without the privileges to know types
		var values []Value
		for _, part := range parts(s) {
			values = append(values, Value{Text: text[part.Start:part.End], Kind: "integer"})
		}
		p.setValues(values)
		return p, nil
	}
	list, err := inline(t, s, target, o)
	if err != nil {
		return nil, err
	}
	for _, w := range list[0].Warnings {
		t.Verbosef("%v", inText(text, w))
	}
	return p, p.fill(t, s, list)
}

// fill gives a probe its actions and values.
func (p *Probe) fill(t *tool.Tool, s *script.Snippet, list []script.Inlined) error {
	p.Actions, p.Format, p.resolve = nil, list[0].Format, list[0].Resolve
	texts := parts(s)
	for _, in := range list {
		var values []Value
		for i, of := range in.Types {
			verb := ""
			if s.Printf {
				verb = in.Verbs[i]
			}
			v, err := newValue(of, verb, t.Env().Arch())
			if i < len(texts) {
				v.Text = p.Text[texts[i].Start:texts[i].End]
			}
			if err != nil {
				return t.Usagef("%w", &mistake{p.Text, texts[min(i, len(texts)-1)].Start, v.Text + err.Error()})
			}
			values = append(values, v)
		}
		if p.Actions == nil {
			p.Values = values
		}
		if !slices.EqualFunc(p.Values, values, Value.like) {
			return t.Usagef("%s: values are not of one type: %v differs from %v", p.Text, in.Target, list[0].Target)
		}
		for i, v := range values {
			p.Values[i].Most = max(p.Values[i].Most, v.Most)
		}
		p.Actions = append(p.Actions, Action{in.Target, in.Values, in.Body})
	}
	if len(list) == 1 {
		p.Actions[0].Target = p.Target // as the user wrote it: a pattern leaves out what cannot be probed
	}
	return nil
}

// Resolve returns the options with which the targets of probes are resolved.
func Resolve(list []*Probe) *probe.Options {
	o := &probe.Options{}
	for _, p := range list {
		o.DWARF = o.DWARF || p.resolve.DWARF
		o.PreferBTF = o.PreferBTF || p.resolve.PreferBTF
	}
	return o
}

// split splits a probe into its parts.
func split(text string) (*script.Snippet, error) {
	s := &script.Snippet{Name: "PROBE", Text: text}
	skip := func(at int) int {
		return len(text) - len(strings.TrimLeft(text[at:], " \t\n"))
	}
	s.Target = script.Part{Start: skip(0), End: skip(0)}
	for quoted := false; s.Target.End < len(text); s.Target.End++ {
		c := text[s.Target.End]
		if c == '"' {
			quoted = !quoted
		}
		if !quoted && (c == ' ' || c == '\t' || c == '\n') {
			break
		}
	}
	if s.Target.Start == s.Target.End {
		return nil, &mistake{text, 0, "want a probe: TARGET [/FILTER/] [VALUE, ...]"}
	}
	at := skip(s.Target.End)
	if strings.HasPrefix(text[at:], "/") {
		n := strings.Index(text[at+1:]+" ", "/ ")
		if n < 0 {
			return nil, &mistake{text, at, "the filter that begins here has no end: a slash, before a blank or the text's end"}
		}
		s.Filter = script.Part{Start: at + 1, End: at + 1 + n}
		at = skip(s.Filter.End + 1)
	}
	s.Values = script.Part{Start: at, End: max(at, len(strings.TrimRight(text, " \t\n")))}
	return s, nil
}

// parts returns the values of a probe as they are written, without a format: between commas outside of
// brackets and quotes.
func parts(s *script.Snippet) (list []script.Part) {
	depth, quoted, start := 0, false, s.Values.Start
	add := func(end int) {
		trimmed := strings.TrimSpace(s.Text[start:end])
		start += strings.Index(s.Text[start:end], trimmed)
		list = append(list, script.Part{Start: start, End: start + len(trimmed)})
		start = end + 1
	}
	for i := start; i < s.Values.End; i++ {
		switch c := s.Text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == ',' && depth == 0:
			add(i)
		}
	}
	if strings.TrimSpace(s.Text[s.Values.Start:s.Values.End]) == "" {
		return nil
	}
	add(s.Values.End)
	if s.Printf {
		list = list[1:]
	}
	return list
}
