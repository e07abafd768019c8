package escape

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// hostile is every kind of character that something acts on.
const hostile = "a;b 5\nx\x1b[31m\a\x7f\u009b\u0085\u202e\u2066\u200f\u061c\u2028\u2029\xff</script>]]>\"\\'\ufffe\t\r\x00é世"

func TestSinks(t *testing.T) {
	for _, c := range []struct{ sink, got, want string }{
		{"terminal", Terminal(hostile), "a;b 5?x?[31m??????????\ufffd</script>]]>\"\\'\ufffe???é世"},
		{"frame", Frame(hostile, false), "a:b 5 x [31m" + strings.Repeat(" ", 10) + "\ufffd</script>]]>\"\\'\ufffd   é世"},
		{"folded", Folded("comm 5", "a;b", "", "\x1b", "worker 12"), "comm 5;a:b;[unknown];[unknown];worker_12"},
		{"lines", Lines("a\tb\x1b\n\u202ec\n"), "a\tb?\n?c\n"},
		{"label", Label("a\"\\\n\x1b\u009b\xffé"), `"a\"\\\n` + "\ufffd\ufffd\ufffdé\""},
		{"json", string(JSON([]byte("{\"é\u009b\u202e\x7f世\":1}"))), `{"é\u009b\u202e\u007f世":1}`},
		{"markup", Markup("<&>\"'\u202e\x1b\n"), "&lt;&amp;&gt;&quot;&apos;\ufffd\ufffd\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+q, want %+q", c.sink, c.got, c.want)
		}
	}
	if got := Terminal(strings.Repeat("é", maxText)); len(got) != maxText+len("…") || !utf8.ValidString(got) {
		t.Errorf("%d bytes of a long text", len(got))
	}
}

// invisible has characters without a shape: soft hyphen, grapheme joiner, Mongolian vowel
// separator, zero-width space, joiner and non-joiner, word joiner, a Hangul filler, a
// variation selector, byte order mark, annotation anchor, language tag, tags, and a
// selector beyond the first plane.
const invisible = "\u00ad\u034f\u180e\u200b\u200c\u200d\u2060\u3164\ufe0f\ufeff\ufff9\U000e0001\U000e0020\U000e007f\U000e0100"

// TestInvisibleInSinks: two names that differed in such characters only looked alike in
// every output, since only controls and directions were replaced.
func TestInvisibleInSinks(t *testing.T) {
	for _, r := range invisible {
		name, units := "a"+string(r)+"b", ""
		for _, u := range utf16.Encode([]rune{r}) {
			units += fmt.Sprintf(`\u%04x`, u)
		}
		for _, c := range []struct{ sink, got, want string }{
			{"terminal", Terminal(name), "a?b"},
			{"Fprintf", Sprintf("%s %v", name, pair{name}), "a?b {a?b}"},
			{"lines", Lines(name + "\n"), "a?b\n"},
			{"frame", Frame(name, true), "a b"},
			{"folded", Folded(name, name), "a b;a b"},
			{"label", Label(name), "\"a\ufffdb\""},
			{"markup", Markup(name), "a\ufffdb"},
			{"json", string(JSON([]byte(`"` + name + `"`))), `"a` + units + `b"`},
			{"errors", strings.Join(Errors(errors.New(name)), "|"), "a?b"},
		} {
			if c.got != c.want {
				t.Errorf("%U in %s: %+q, want %+q", r, c.sink, c.got, c.want)
			}
		}
		if Safe(name) {
			t.Errorf("%U is safe", r)
		}
	}
	for _, name := range []string{"naïve", "世界", "привет", "😀", "e\u0301", "a·b…"} {
		if Terminal(name) != name || !Safe(name) {
			t.Errorf("%q became %q", name, Terminal(name))
		}
	}
}

type pair struct{ Name string }

func TestFprintf(t *testing.T) {
	var b strings.Builder
	Fprintf(&b, "%-4s|%*d|%6.2f|%v|%s|%v|%5v|%x|%q|%v\n", "a\x1b", 4, 7, 1.5, pair{"\n"}, []byte("\u009b"), errors.New("x\ny"), time.Second,
		[]byte{1}, "\n", nil)
	if want := "a?  |   7|  1.50|{?}|?|x?y|   1s|01|\"?\"|<nil>\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestMarshal checks that what is escaped means the same.
func TestMarshal(t *testing.T) {
	b, err := Marshal(map[string]string{"name": hostile + invisible})
	if err != nil {
		t.Fatal(err)
	}
	checkLine(t, string(b))
	var back map[string]string
	if err := json.Unmarshal(b, &back); err != nil || back["name"] != strings.ToValidUTF8(hostile+invisible, "\ufffd") {
		t.Errorf("%v, %q", err, back)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func checkLine(t *testing.T, s string) {
	t.Helper()
	for _, r := range s {
		if acts(r) {
			t.Errorf("%+q has %U", s, r)
		}
	}
	if !utf8.ValidString(s) {
		t.Errorf("%+q is not UTF-8", s)
	}
}

func FuzzSinks(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		checkLine(t, Terminal(s))
		checkLine(t, Frame(s, true))
		checkLine(t, strings.NewReplacer("\n", "", "\t", "").Replace(Lines(s)))
		checkLine(t, Label(s))
		checkLine(t, Sprintf("%s %v %q", s, errors.New(s), pair{s}))
		if strings.Contains(Frame(s, true), ";") {
			t.Errorf("frame %q", Frame(s, true))
		}
		if Terminal(Terminal(s)) != Terminal(s) || Frame(Frame(s, true), true) != Frame(s, true) {
			t.Errorf("%q twice is something else", s)
		}
		b, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		checkLine(t, string(b))
		var text string
		if err := xml.Unmarshal([]byte(`<a b="`+Markup(s)+`">`+Markup(s)+`</a>`), &struct {
			XMLName xml.Name
			Text    *string `xml:",chardata"`
		}{Text: &text}); err != nil {
			t.Errorf("markup of %q: %v", s, err)
		}
	})
}

func TestErrors(t *testing.T) {
	a, b := errors.New("open a\x1b\n  b: no"), errors.New("second")
	for _, c := range []struct {
		err  error
		want string
	}{
		{a, "open a?; b: no"},
		{errors.Join(a, errors.Join(nil, b)), "open a?; b: no|second"},
		{errors.Join(b), "second"},
		{fmt.Errorf("%w, %w", a, b), "open a?; b: no, second"},
		{fmt.Errorf("x: %w", errors.Join(a, b)), "x: open a?; b: no; second"},
	} {
		if got := strings.Join(Errors(c.err), "|"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
