package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

// add compares one snippet.
func (s *score) add(sn snippet) {
	if !sn.constant && !s.timed && s.name != "runtime PROG" {
		s.skipped++
		return
	}
	s.total++
	f, p, err := parse(sn)
	if p != nil {
		s.compareTypes(sn, p)
	}
	if w, ok := errors.AsType[warned](err); ok {
		s.warning(sn, w.String())
		err = nil
	} else if sn.warning != "" && sn.accepted {
		s.warning(sn, "")
	}
	if err != nil && len(sn.says) > 0 && !slices.ContainsFunc(sn.says, func(s string) bool {
		return strings.Contains(syntax.ErrorText(err), s)
	}) {
		err = nil
	}
	if (err == nil) == sn.accepted || sn.either {
		s.alike++
	} else if sn.accepted {
		s.differs(sn, "refused:\n%s", syntax.ErrorText(err))
	} else {
		s.differs(sn, "accepted, want:\n%s", sn.text)
	}
	if !sn.accepted && sn.text != "" {
		s.texts++
		got := ""
		if err != nil {
			got = syntax.ErrorText(err)
		}
		if got == sn.text || sn.partly && strings.Contains(got, sn.text) {
			s.sameTexts++
		} else {
			s.differs(sn, "error is:\n%swant:\n%s", got, sn.text)
		}
	}
	if sn.accepted && err == nil {
		s.format(sn, f)
	}
	if s.timed {
		start := time.Now()
		for range 10 {
			_, _ = syntax.Parse("stdin", []byte(sn.src), nil)
		}
		s.times = append(s.times, time.Since(start)/10)
	}
}

// warning compares the warnings of a snippet that is accepted.
func (s *score) warning(sn snippet, got string) {
	if sn.warning == "" || !sn.accepted {
		return
	}
	s.texts++
	if strings.Contains(got, sn.warning) {
		s.sameTexts++
	} else {
		s.differs(sn, "warnings are:\n%swant:\n%s", got, sn.warning)
	}
}

// parse runs the passes that the test runs.
func parse(sn snippet) (f *syntax.File, p *types.Script, err error) {
	f, err = syntax.Parse("stdin", []byte(sn.src), nil)
	if err != nil {
		return f, nil, err
	}
	for _, pass := range sn.passes {
		switch pass {
		case "attach":
			err = attach.Parse(f, &attach.Options{
				Params: sn.params, Unsafe: sn.unsafe, Process: sn.process,
			})
		case "check":
			err = attach.Check(f, &attach.Options{Arch: "amd64"})
		case "types":
			p, err = typed(sn)
		case "configure":
			var warnings syntax.Errors
			if _, warnings, err = config.Read(f, nil); err == nil && len(warnings) > 0 {
				defer warn(&err, warnings)
			}
		case "portable":
			err = config.Portable(f)
		case "macros":
			err = syntax.Expand(f, &syntax.ExpandOptions{Builtin: shadowed})
		}
		if err != nil {
			return f, p, err
		}
	}
	return f, p, nil
}

// warn turns warnings into an error, if there is no other.
func warn(err *error, warnings syntax.Errors) {
	if *err == nil {
		*err = warned{warnings}
	}
}

// shadowed reports whether bpftrace's library has a name that the suite's macros shadow.
func shadowed(name string) bool { return name == "cpu" || name == "comm" }

// format formats a script, and checks that the result parses to the same tree and is
// formatted to the same text.
func (s *score) format(sn snippet, _ *syntax.File) {
	s.formats++
	f, err := syntax.Parse("stdin", []byte(sn.src), nil)
	if err != nil {
		s.differs(sn, "%v", err)
		return
	}
	once := syntax.Format(f)
	g, err := syntax.Parse("stdin", once, nil)
	switch {
	case err != nil:
		s.differs(sn, "formatted is\n%s\nwhich is refused:\n%s", once, syntax.ErrorText(err))
	case !syntax.Equal(f, g):
		s.differs(sn, "formatted is another tree:\n%s", once)
	case !bytes.Equal(syntax.Format(g), once):
		s.differs(sn, "formatted twice:\n%s\nonce:\n%s", syntax.Format(g), once)
	default:
		s.stable++
	}
}

// runtimeProgs returns the PROG directives of the runtime suite: a line, or the lines up to
// the next directive. Those that are expected to fail are left out.
func runtimeProgs(dir string) (list []snippet, err error) {
	err = eachBlock(dir, func(where, rest string) {
		if _, prog, ok := strings.Cut(rest, "\nPROG "); ok {
			list = append(list, snippet{where: where, src: upToDirective(prog), accepted: true})
		}
	})
	return list, err
}

// eachBlock calls fn with the tests of the runtime suite that should not fail: where each is,
// with its name, and its directives, each behind a line's end.
func eachBlock(dir string, fn func(where, rest string)) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if st, err := os.Stat(file); err != nil || st.IsDir() {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, block := range strings.Split("\n"+string(b), "\nNAME ")[1:] {
			name, rest, _ := strings.Cut(block, "\n")
			if !strings.Contains(block, "\nWILL_FAIL") {
				fn(filepath.Base(file)+": "+name, "\n"+rest)
			}
		}
	}
	return nil
}

// upToDirective cuts a PROG before the next line that begins with a word in capitals.
func upToDirective(s string) string {
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		word, _, _ := strings.Cut(line, " ")
		const capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
		if i > 0 && (word == "#" || len(word) > 2 && strings.Trim(word, capitals) == "") {
			break
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
