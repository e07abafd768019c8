package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/tool"
)

// mistake is a mistake at a place of a probe's text.
type mistake struct {
	text   string
	offset int // of a byte, from 0
	msg    string
}

// Error returns `"TEXT": column 3: MSG`. Columns count bytes from one.
func (e *mistake) Error() string { return fmt.Sprintf("%q: column %d: %s", e.text, e.offset+1, e.msg) }

// inText returns an error of a snippet of text.
func inText(text string, e *syntax.Error) error {
	msg := strings.TrimSuffix(e.Msg, "\n")
	for _, h := range e.Hints {
		msg += "; " + strings.TrimSuffix(h, "\n")
	}
	if e.Loc.In == nil {
		return fmt.Errorf("%q: %s", text, msg)
	}
	return &mistake{text, int(e.Loc.Start), msg}
}

// inline types the expressions of a probe.
func inline(t *tool.Tool, s *script.Snippet, target probe.Target, o *Options) ([]script.Inlined, error) {
	most := o.MaxText
	if most == 0 {
		most = DefaultText - 1
	}
	opts := &script.Options{
		Env: t.Env(), Unsafe: t.Unsafe(),
		Environ: func(name string) (string, bool) { return fmt.Sprint(most), name == "BPFTRACE_MAX_STRLEN" },
	}
	if ofUser(target) {
		opts.PID = o.PID
	}
	s.Point = point(target, s.Text[s.Target.Start:s.Target.End])
	list, err := script.Inline(s, opts)
	if err == nil {
		return list, nil
	}
	all := []probe.Target{target}
	_, missing := probe.Resolve(t.Env(), all, &probe.Options{Unsafe: t.Unsafe()})
	if errors.Is(missing, fs.ErrNotExist) && !errors.Is(missing, errors.ErrUnsupported) {
		return nil, t.Explain(all, missing) // it has no types because it is not there
	}
	wrong, _ := errors.AsType[syntax.Errors](err)
	i := slices.IndexFunc(wrong, func(e *syntax.Error) bool { return e.Severity == syntax.SeverityError })
	if i < 0 {
		return nil, t.Explain(all, err)
	}
	first := inText(s.Text, wrong[i])
	if m, ok := errors.AsType[*mistake](first); ok {
		m.msg += hint(s.Text, wrong[i])
	}
	usage := t.Usagef("%w", first)
	at, behind := wrong[i].Loc, s.Text[s.Target.End:]
	if strings.HasPrefix(wrong[i].Msg, "syntax: ") || int(at.Start) > s.Target.End && !arguments.MatchString(behind) {
		return nil, usage
	}
	return nil, t.Explain(all, usage) // who may not read the machine's events does not know their arguments
}

// arguments matches what only the machine's files tell.
var arguments = regexp.MustCompile(`\bargs\b`)

// point returns the attach point of scripts that has the arguments of a target that scripts lack, "" for other
// targets.
func point(target probe.Target, text string) string {
	switch t := target.(type) {
	case probe.LSM:
		return "fentry:bpf_lsm_" + t.Hook
	case probe.FmodRet:
		return "fexit:" + t.Symbol
	case probe.Perf:
		if strings.HasPrefix(text, "perf:") {
			return "profile:hz:1"
		}
	}
	return ""
}

// ofUser reports whether a target is in user programs.
func ofUser(target probe.Target) bool {
	switch t := target.(type) {
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		return true
	case probe.Set:
		return len(t) > 0 && ofUser(t[0])
	}
	return false
}

// older are what the tools' expressions had before they were bpftrace's: the word at an error's place, what
// the error says, and what is written instead.
var older = []struct{ word, msg, now string }{
	{"contains", "Unknown function", `strcontains(text, "part")`},
	{"prefix", "Unknown function", `strncmp(text, "start", 5) == 0`},
	{"ustr", "Unknown function", "str(uptr(address), length)"},
	{"len", "", "strlen(text)"},
	{"str", "argument", "str(address, length)"},
	{"compat", "Unknown identifier", "curtask->thread_info.status & 2 on amd64, curtask->thread_info.flags & 0x400000 on arm64"},
	{"args", "(iter used here)", "ctx, which has an iterator's objects"},
	{"args", "The args builtin can only", "arg0, arg1 and so on, or probe fentry, which has names"},
	{"=", "", "== to compare"},
}

// word matches the word at a place.
var word = regexp.MustCompile(`^\s*(\w+|=)`)

// hint returns what is written instead of what expressions no longer have, at an error's place.
func hint(text string, e *syntax.Error) string {
	if e.Loc.In == nil {
		return ""
	}
	m := word.FindStringSubmatch(text[e.Loc.Start:])
	for _, o := range older {
		if m != nil && m[1] == o.word && strings.Contains(e.Msg, o.msg) {
			return ": write " + o.now
		}
	}
	return ""
}
