package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/big"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// unmet returns why an output is not what a case expects, or "".
func (c *testCase) unmet(fsys fs.FS, output string) string {
	for _, e := range c.expects {
		if why := e.unmet(fsys, c.localize, output); why != "" {
			return why
		}
	}
	return ""
}

func (e expect) unmet(fsys fs.FS, local time.Time, output string) string {
	switch e.mode {
	case "EXPECT_FILE", "EXPECT_JSON":
		want, err := fs.ReadFile(fsys, path.Clean(e.text))
		if err != nil {
			return err.Error()
		}
		if e.mode == "EXPECT_FILE" {
			return sameText(strings.TrimSpace(localized(string(want), local)), strings.TrimSpace(output))
		}
		return sameJSON(strings.TrimSpace(string(want)), strings.TrimSpace(output), path.Ext(e.text) == ".ndjson")
	}
	pattern := e.text
	if !strings.Contains(e.mode, "REGEX") {
		pattern = `^\s*` + regexp.QuoteMeta(pattern) + `\s*$` // a line, whatever space is around it
	}
	re, err := regexp.Compile("(?m)" + written(pattern))
	if err != nil {
		return err.Error()
	}
	none := strings.HasSuffix(e.mode, "_NONE")
	if re.MatchString(output) != none {
		return ""
	}
	if none {
		return fmt.Sprintf("has %q", e.text)
	}
	return fmt.Sprintf("wants %q%s", e.text, closest(e.text, output))
}

// closest says which line of an output is most like what is wanted: that which begins like it, or the
// first one that is not about the attachment.
func closest(want, output string) string {
	best, most := "", -1
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || attached.MatchString(line) {
			continue
		}
		n := 0
		for n < min(len(line), len(want)) && line[n] == want[n] {
			n++
		}
		if n > most {
			best, most = line, n
		}
	}
	if best == "" {
		return ", has nothing"
	}
	return fmt.Sprintf(", has %q", best[:min(len(best), mostLine)])
}

// mostLine is how much of a line a cause has, in bytes.
const mostLine = 100

var manyTimes = regexp.MustCompile(`(\\.|\[[^\]]*\]|[^\\()\[\]])\{(\d{4,})\}`)

// written writes repetitions out that are more than Go's package regexp takes.
func written(pattern string) string {
	return manyTimes.ReplaceAllStringFunc(pattern, func(s string) string {
		m := manyTimes.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
}

func sameText(want, has string) string {
	if want == has {
		return ""
	}
	w, h := strings.Split(want, "\n"), strings.Split(has, "\n")
	for i := range w {
		if i >= len(h) {
			return fmt.Sprintf("wants line %d, %q", i+1, w[i])
		}
		if w[i] != h[i] {
			return fmt.Sprintf("wants line %d, %q, has %q", i+1, w[i], h[i])
		}
	}
	return fmt.Sprintf("has %q after its last line", h[len(w)])
}

// sameJSON compares the values of one line of JSON, or of as many as the file has.
func sameJSON(want, has string, lines bool) string {
	w, h := []string{want}, strings.Split(has, "\n")
	if lines {
		w = strings.Split(want, "\n")
	}
	if len(h) != len(w) {
		return fmt.Sprintf("wants %d lines of JSON, has %d: %q", len(w), len(h), has)
	}
	for i := range w {
		a, err := decoded(w[i])
		if err != nil {
			return err.Error()
		}
		b, err := decoded(h[i])
		if err != nil {
			return fmt.Sprintf("has %q: %v", h[i], err)
		}
		if !equalJSON(a, b) {
			return fmt.Sprintf("wants %s, has %s", compact(a), h[i])
		}
	}
	return ""
}

func decoded(s string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	return v, d.Decode(&v)
}

func compact(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := new(big.Rat).SetString(a.String())
		y, _ := new(big.Rat).SetString(b.String())
		return x != nil && y != nil && x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if other, ok := b[k]; !ok || !equalJSON(a[k], other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// localized writes a time into the expected text, as strftime does.
func localized(text string, t time.Time) string {
	if t.IsZero() {
		return text
	}
	return strings.NewReplacer("%%", "%", "%Y", t.Format("2006"), "%m", t.Format("01"), "%d", t.Format("02"),
		"%H", t.Format("15"), "%M", t.Format("04"), "%S", t.Format("05")).Replace(text)
}

// readable is an output as the suite's engine reads it: other ends of lines are ends of lines, and bytes
// that are no UTF-8 are written as \xNN.
func readable(b []byte) string {
	var out strings.Builder
	s := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&out, `\x%02x`, s[0])
		} else {
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}
