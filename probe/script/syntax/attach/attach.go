package attach

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe/script/syntax"
)

// Options are the options of [Parse] and Check. nil is the default.
type Options struct {
	Params  []string // values of $1 and so on in attach points
	Process bool     // a process is chosen, so that uprobe and usdt need no file
	Unsafe  bool     // kprobes by address are allowed
	// MayMiss allows probes without attach points, as with config = { missing_probes =
	// "ignore" }.
	MayMiss bool
	// Arch is the machine's architecture, in GOARCH's spelling, for Check's modes of
	// watchpoints. "" is this program's.
	Arch string
}

// Limits of the work that a script can cause.
const (
	mostErrors = 100    // errors that are recorded
	mostPoints = 25_000 // attach points, as in the parser: wildcards in providers make more of them
)

// Parse parses the attach points of a script and fills in their fields. A point becomes
// several points if its provider has wildcards. A script may have up to 25,000 points. The
// error is a [syntax.Errors].
func Parse(f *syntax.File, o *Options) error {
	if o == nil {
		o = &Options{}
	}
	var errs syntax.Errors
	fail := func(l syntax.Loc, msg string) {
		if len(errs) < mostErrors {
			errs = append(errs, &syntax.Error{Loc: l, Msg: msg})
		}
	}
	points := 0
	for _, d := range f.Decls {
		pr, ok := d.(*syntax.Probe)
		if !ok {
			continue
		}
		var read []*syntax.AttachPoint
		a := &attacher{Options: o}
		todo := slices.Clone(pr.Points)
		for i := 0; i < len(todo); i++ {
			ap := todo[i]
			if points++; points > mostPoints {
				fail(ap.Loc, "the script has more than "+strconv.Itoa(mostPoints)+" attach points")
				return errs.Err()
			}
			a.AttachPoint, a.parts = ap, a.parts[:0]
			more, err := a.read()
			switch {
			case err == errSkip:
			case err != nil:
				fail(ap.Loc, err.Error())
				if ap.Provider != "" {
					read = append(read, ap)
				}
			case more != nil:
				todo = append(todo, more...)
			case ap.Provider != "":
				read = append(read, ap)
			}
		}
		if pr.Points = read; len(read) == 0 && !o.MayMiss {
			fail(pr.Loc, "No attach points for probe")
		}
	}
	return errs.Err()
}

// refusal is an error with bpftrace's text.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// errSkip makes Parse drop an attach point.
const errSkip = refusal("skip")

// attacher parses the attach points of a probe, one after the other.
type attacher struct {
	*Options
	*syntax.AttachPoint
	parts []string
	iter  bool // the probe already has an iter
}

// read fills in the fields, or returns the attach points to parse instead.
func (a *attacher) read() ([]*syntax.AttachPoint, error) {
	if err := a.split(); err != nil {
		return nil, err
	}
	first := a.parts[0]
	if label, rest, ok := strings.Cut(first, "="); ok && rest != "" {
		a.Label, first = label, rest
	}
	if first == "" {
		return nil, nil // a trailing comma ends the list
	}
	if wildcard(first) {
		return a.expand(first)
	}
	a.Provider = providerOf(first)
	return nil, a.fields()
}

// mostParams is the maximal number of positional parameters in one attach point; without it a
// parameter that contains itself would have no end.
const mostParams = 100

// split removes quotes from the text, replaces parameters, and splits the text at its colons.
// An @ is a part of its own.
func (a *attacher) split() error {
	raw, quoted, params := a.Text, false, 0
	var part strings.Builder
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case (c == ':' || c == '@') && !quoted:
			a.parts = append(a.parts, part.String())
			part.Reset()
			if c == '@' {
				a.parts = append(a.parts, "@")
			}
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\' && i+1 < len(raw):
			i++
			part.WriteByte(raw[i])
		case !quoted && c == '$':
			value, after, err := a.param(raw, i+1)
			if err != nil {
				return err
			}
			if params++; params > mostParams {
				return refuse("too many positional parameters")
			}
			raw, i = value+raw[after:], -1
		default:
			part.WriteByte(c)
		}
	}
	a.parts = append(a.parts, part.String())
	return nil
}

// param returns the value of the parameter with its number at a position, and the position
// after the number.
func (a *attacher) param(raw string, at int) (value string, after int, err error) {
	end := at
	for end < len(raw) && digit(raw[end]) && (end > at || raw[end] != '0') {
		end++
	}
	if end == at && at < len(raw) {
		c := raw[at : at+1]
		return "", 0, refuse("invalid trailing character for positional param: %s. Try quoting "+
			"this entire part if this is intentional e.g. \"$%s\".", c, c)
	}
	n, err := syntax.ParseInteger(raw[at:end])
	if err != nil {
		return "", 0, refuse("positional parameter is not valid: %v", err)
	}
	if n <= uint64(len(a.Params)) {
		value = a.Params[n-1]
	}
	return value, end, nil
}

// wildcard reports whether bpftrace considers a name to have wildcards.
func wildcard(s string) bool {
	return strings.Contains(s, "*") || strings.Contains(s, "[") && strings.Contains(s, "]")
}

// expand makes an attach point for each provider that a pattern matches.
func (a *attacher) expand(pattern string) ([]*syntax.AttachPoint, error) {
	_, rest, _ := strings.Cut(a.Text, ":")
	query := pattern
	if len(a.parts) == 1 {
		query, rest = "*", a.Text
	}
	among := []string{
		"fentry", "hardware", "iter", "kprobe", "rawtracepoint", "software", "tracepoint",
	}
	if a.Process || len(a.parts) > 1 && strings.Contains(a.parts[1], "/") {
		among = []string{"uprobe", "usdt"}
	}
	var list []*syntax.AttachPoint
	for _, name := range among {
		if glob.Match(query, name) {
			list = append(list, &syntax.AttachPoint{Loc: a.Loc, Text: name + ":" + rest, Wild: true})
		}
	}
	switch len(list) {
	case 0:
		return nil, refuse("No probe type matched for %s", pattern)
	case 1:
		a.Provider, _, _ = strings.Cut(list[0].Text, ":")
		return nil, a.fields()
	}
	return list, nil
}

// providerOf returns the full name of a provider.
func providerOf(name string) string {
	switch name {
	case "k":
		return "kprobe"
	case "kr":
		return "kretprobe"
	case "u":
		return "uprobe"
	case "ur":
		return "uretprobe"
	case "U":
		return "usdt"
	case "t":
		return "tracepoint"
	case "p":
		return "profile"
	case "i":
		return "interval"
	case "s":
		return "software"
	case "h":
		return "hardware"
	case "w":
		return "watchpoint"
	case "f", "kfunc":
		return "fentry"
	case "fr", "kretfunc":
		return "fexit"
	case "it":
		return "iter"
	case "rt":
		return "rawtracepoint"
	}
	return strings.ToLower(name)
}

// count returns the error for a wrong number of parts. If the provider had wildcards, the
// point is dropped instead.
func (a *attacher) count(want ...int) error {
	if a.Wild {
		return errSkip
	}
	msg := strconv.Itoa(want[0])
	if len(want) > 1 {
		msg += " or " + strconv.Itoa(want[1])
	}
	return refuse("%s probe type requires %s arguments, found %d", a.Provider, msg, len(a.parts)-1)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
