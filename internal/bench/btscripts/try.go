package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
)

// state is what became of a script.
type state string

const (
	isProgram   state = "programs"       // which the verifier takes, if they were loaded
	hasStandIns state = "with stand-ins" // the same, with other probes in place of those not here
	isRefused   state = "refused"        // by the verifier, or another part of the kernel
	isAbsent    state = "not here"       // probes, or what the kernel cannot do
	otherTypes  state = "other types"    // the kernel's types are not those that the script was written for
	isWrong     state = "wrong"          // an error in the script
	notYet      state = "not yet"        // the language has it, programs do not
)

// states are all of them, in the order of the table.
var states = []state{isProgram, hasStandIns, isRefused, isAbsent, otherTypes, isWrong, notYet}

// result is a script's state, and why it is not a program.
type result struct {
	state state
	cause string
}

// machine returns this machine, with kprobes even if its kernel has none: programs for them can be
// loaded all the same.
func machine() *probe.Env {
	has := env.RecordFeatures()
	has["kprobe"] = has["uprobe"] // programs of the same type
	return probe.NewEnv(&probe.EnvOptions{Features: has})
}

// mostStandIns is the number of times that a script's absent probes are looked for.
const mostStandIns = 50

// try compiles a script, with stand-ins for probes that are not here, and loads it.
func try(env *probe.Env, path, text string, load bool) result {
	p, err := script.Compile(path, text, options(env))
	absent := ""
	for range mostStandIns {
		if err == nil {
			break
		}
		other, ok := standIn(text, err)
		if !ok {
			break
		}
		if absent == "" {
			absent = first(err)
		}
		text = other
		p, err = script.Compile(path, text, options(env))
	}
	var said syntax.Errors
	var lacks *probe.UnsupportedError
	var target *probe.TargetError
	if err == nil && load {
		if err := p.Load(); err != nil && !errors.As(err, &lacks) {
			return result{isRefused, strings.ReplaceAll(err.Error(), "\n", " / ")}
		} else if err != nil {
			return result{isAbsent, first(err)}
		}
	}
	switch {
	case err == nil && absent != "":
		return result{hasStandIns, absent}
	case err == nil:
		return result{isProgram, ""}
	case absent != "":
		return result{isAbsent, absent}
	case errors.As(err, &said) && beyond.MatchString(said.String()):
		return result{notYet, strings.TrimSuffix(first(err), script.NotYet)}
	case errors.As(err, &lacks), errors.As(err, &target), only(said, absences):
		return result{isAbsent, first(err)}
	case only(said, typeless):
		return result{otherTypes, first(err)}
	}
	return result{isWrong, first(err)}
}

var (
	// absences are the errors for what a machine does not have.
	absences = regexp.MustCompile(`^No matches for |^Probe has no valid attach points|` +
		`^Failed to resolve kernel symbol| is not loaded\.$|^Missing required kernel feature`)
	// beyond are those for what programs do not have, or not as large.
	beyond = regexp.MustCompile(regexp.QuoteMeta(script.NotYet) + `|(?m:: ERROR: a program of more than |: the script has more than )`)
	// typeless are those for types.
	typeless = regexp.MustCompile(`does not contain a field named|^Cannot resolve unknown type|^Unable to find enum|` +
		`^Unknown identifier: '[A-Z]`)
)

// only reports whether all errors are of a kind.
func only(said syntax.Errors, kind *regexp.Regexp) bool {
	return len(said) > 0 && !slices.ContainsFunc(said, func(e *syntax.Error) bool {
		return e.Severity == syntax.SeverityError && !kind.MatchString(e.Msg)
	})
}

// keySize is what differs in the errors for keys that are too large.
var keySize = regexp.MustCompile(`^map \S+: key of \d+ bytes: `)

// first returns the first error of a script, or the first line of another error.
func first(err error) string {
	if said, ok := errors.AsType[syntax.Errors](err); ok {
		for _, e := range said {
			if e.Severity == syntax.SeverityError {
				err = errors.New(e.Msg)
				break
			}
		}
	} else if target, ok := errors.AsType[*probe.TargetError](err); ok {
		err = target // without the script's path
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if _, cause, ok := strings.Cut(line, "compile script: "); ok {
		line = cause
	}
	return keySize.ReplaceAllString(line, "a key: ")
}

// What stands in for functions of the kernel and of user programs: any machine with a C library has
// them.
const (
	kernelStandIn = "vfs_read"
	userStandIn   = "libc:malloc"
)

var (
	kernelPoint = regexp.MustCompile(`\b(kprobe|kretprobe|k|kr):(?:[\w*?]+:)?[\w.*?\[\]]+(?:\+\w+)?`)
	userPoint   = regexp.MustCompile(`\b(uprobe|uretprobe|u|ur):(?:"[^"]*"|[^\s:",]+):(?:"[^"]*"|[^\s",{/])+`)
	address     = regexp.MustCompile(`\bkaddr\("\w+"\)`)
)

// inPlace returns a piece of a script with stand-ins.
func inPlace(piece string) string {
	head, action, ok := strings.Cut(piece, "{")
	head = kernelPoint.ReplaceAllString(head, "$1:"+kernelStandIn)
	head = userPoint.ReplaceAllString(head, "$1:"+userStandIn)
	head = address.ReplaceAllString(head, `kaddr("`+kernelStandIn+`")`)
	if ok {
		head += "{" + action
	}
	return head
}

// standIn returns a script with stand-ins for what an error says is not here, and whether there are
// any: the arguments of tracepoints, of functions by type and of usdt are their own.
func standIn(text string, err error) (string, bool) {
	other := text
	if said, ok := errors.AsType[syntax.Errors](err); ok {
		for _, e := range slices.SortedFunc(slices.Values(said), func(a, b *syntax.Error) int { return int(b.Loc.Start - a.Loc.Start) }) {
			if e.Severity == syntax.SeverityError && absences.MatchString(e.Msg) && e.Loc.In != nil && e.Loc.In.Content == text {
				other = other[:e.Loc.Start] + inPlace(e.Loc.Text()) + other[e.Loc.End:]
			}
		}
	} else if t, ok := errors.AsType[*probe.TargetError](err); ok {
		name := ""
		switch t := t.Target.(type) {
		case probe.Kprobe:
			name = t.Symbol
		case probe.Kretprobe:
			name = t.Symbol
		case probe.Uprobe:
			name = t.Symbol
		case probe.Uretprobe:
			name = t.Symbol
		}
		replace := func(point string) string {
			if name == "" || !strings.Contains(point, name) {
				return point
			}
			return inPlace(point)
		}
		other = userPoint.ReplaceAllStringFunc(kernelPoint.ReplaceAllStringFunc(text, replace), replace)
	}
	return other, other != text
}

func options(env *probe.Env) *script.Options {
	return &script.Options{Env: env, Unsafe: true, Params: []string{"1", "1", "1"}}
}
