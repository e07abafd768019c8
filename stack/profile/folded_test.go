package profile

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func mustFolded(t *testing.T, text string) *Folded {
	t.Helper()
	f, err := ParseFolded(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFoldedAdd(t *testing.T) {
	var f Folded
	f.Add([]string{"main", "b"}, 2)
	f.Add([]string{"main", "a"}, 3)
	f.Add([]string{"main", "b"}, 5)
	f.Add([]string{"main", "b"}, -1)
	f.Add(nil, 1)
	f.Add([]string{"main", "x;y\nz", "worker 12"}, 1)
	want := "[unknown] 1\nmain;a 3\nmain;b 7\nmain;x:y z;worker_12 1\n"
	if got := f.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if f.Total() != 12 || f.Len() != 4 {
		t.Errorf("Total %d, Len %d", f.Total(), f.Len())
	}
	f.Add([]string{"big"}, math.MaxInt64)
	if f.Total() != math.MaxInt64 {
		t.Errorf("Total overflowed: %d", f.Total())
	}
}

func TestFoldedNamesCannotBreakLines(t *testing.T) {
	bad := []string{
		";", "\n", "a;b", "a\r\nb", " x ", "", " ", "n 1 2", "1", "1 2", "\xff\xfe", "\x00", "\u2028", "\uffff",
		"foo\t7", "a\u00a0", "\u0085 3", "x\u00a05", "日本 4", "_[k]", "- 3",
	}
	for _, s := range bad {
		for _, frames := range [][]string{{s}, {s, "leaf"}, {"root", s}} {
			var f Folded
			f.Add(frames, 7)
			text := f.String()
			if strings.Count(text, "\n") != 1 || strings.Count(text, ";") != len(frames)-1 {
				t.Errorf("%q: bad line %q", frames, text)
			}
			if g := mustFolded(t, text); !g.Equal(&f) {
				t.Errorf("%q: %q read back as %q", frames, text, g)
			}
		}
	}
}

func TestParseFolded(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"merge", "a;b 1\na;b 2\n", "a;b 3\n"},
		{"crlf_and_blank", "a 1\r\n\r\n  \nb 2", "a 1\nb 2\n"},
		{"empty_frame", "a;;b 1\n", "a;[unknown];b 1\n"},
		{"differential", "a;b 1 2\na 0 4\n", "a 0 4\na;b 1 2\n"},
		{"number_in_name", "Thread 3 5\nmain 2\n", "Thread_3 5\nmain 2\n"},
		{"spaces_in_name", "operator new(unsigned long);void f<int> 3\n", "operator new(unsigned long);void f<int> 3\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mustFolded(t, c.in).String(); got != c.want {
				t.Errorf("got %q want %q", got, c.want)
			}
		})
	}
	for _, c := range []struct{ in, want string }{
		{"a;b\n", "folded:1: no count"},
		{"a 1\nb x\n", "folded:2: no count"},
		{"a -1\n", "folded:1: no count"},
		{"a 1.5\n", "folded:1: no count"},
		{"a 99999999999999999999\n", "folded:1: no count"},
		{"12\n", "folded:1: no count"},
	} {
		if _, err := ParseFolded(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.in, err, c.want)
		}
	}
}

func TestFoldedTransforms(t *testing.T) {
	f := mustFolded(t, "java;a;a;b 4\njava;a;c 1\npython;a 6\n")
	for _, c := range []struct {
		name string
		got  *Folded
		want string
	}{
		{"filter", f.Filter(func(s FoldedStack) bool { return s.Frames[0] == "java" }), "java;a;a;b 4\njava;a;c 1\n"},
		{"rename_drop", f.Rename(func(s string) string {
			if s == "java" || s == "python" {
				return ""
			}
			return strings.ToUpper(s)
		}), "A 6\nA;A;B 4\nA;C 1\n"},
		{"reverse", f.Reverse(), "a;python 6\nb;a;a;java 4\nc;a;java 1\n"},
		{"recursion", f.MergeRecursion(), "java;a;b 4\njava;a;c 1\npython;a 6\n"},
		{"prune", f.Prune(2), "java;a 1\njava;a;a;b 4\npython;a 6\n"},
		{"prune_root", f.Prune(6), "[pruned] 5\npython;a 6\n"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, got, c.want)
		}
	}
	if f.Prune(1<<40).Total() != f.Total() {
		t.Error("Prune changed the total")
	}
}

func TestFoldedDiff(t *testing.T) {
	before := mustFolded(t, "a;b 10\na;c 10\n")
	after := mustFolded(t, "a;b 30\na;d 10\n")
	if got, want := Diff(before, after, false).String(), "a;b 10 30\na;c 10 0\na;d 0 10\n"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
	d := Diff(before, after, true)
	if got, want := d.String(), "a;b 20 30\na;c 20 0\na;d 0 10\n"; got != want {
		t.Errorf("normalized: got %q want %q", got, want)
	}
	if d.BaseTotal() != d.Total() {
		t.Errorf("normalized totals differ: %d and %d", d.BaseTotal(), d.Total())
	}
	if g := mustFolded(t, d.String()); !g.Equal(d) {
		t.Errorf("read back as %q", g)
	}
}

func TestFoldedJSON(t *testing.T) {
	for _, in := range []string{"", "a;b 3\nc 1\n", "a;b 3 4\nc 0 1\n"} {
		f := mustFolded(t, in)
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var g Folded
		if err := json.Unmarshal(b, &g); err != nil {
			t.Fatal(err)
		}
		if !g.Equal(f) {
			t.Errorf("%q: %s read back as %q", in, b, g.String())
		}
	}
	var f Folded
	if err := json.Unmarshal([]byte(`{"stacks":[{"frames":["a"],"count":-1}]}`), &f); err == nil {
		t.Error("negative count accepted")
	}
}

func TestFoldedNil(t *testing.T) {
	var f *Folded
	if f.Len() != 0 || f.Total() != 0 || f.String() != "" || len(slices.Collect(f.All())) != 0 {
		t.Error("a nil Folded is not empty")
	}
	var g Folded
	g.Merge(f)
	if !g.Equal(f) {
		t.Error("nil and empty differ")
	}
}

func TestFoldedAddAllocatesNothing(t *testing.T) {
	var f Folded
	frames := []string{"sh", "main", "execute_command_internal", "do_syscall_64_[k]"}
	f.Add(frames, 1)
	if n := testing.AllocsPerRun(100, func() { f.Add(frames, 1) }); n != 0 {
		t.Errorf("Add of a known stack allocates %v times", n)
	}
}

func FuzzParseFolded(f *testing.F) {
	for _, s := range []string{"a;b 1\n", "a;b 1 2\nc 3 4\n", "a 1 2\nb 3\n", " 5\n", "\xff;\x00 1\n", "a\u0085b 3\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ParseFolded(strings.NewReader(in))
		if err != nil {
			return
		}
		q, err := ParseFolded(strings.NewReader(p.String()))
		if err != nil {
			t.Fatalf("%q: own output refused: %v", in, err)
		}
		if !q.Equal(p) {
			t.Fatalf("%q: %q read back as %q", in, p, q)
		}
		if p.Reverse().Total() != p.Total() || p.Prune(3).Total() != p.Total() {
			t.Fatalf("%q: a transform changed the total", in)
		}
	})
}

func BenchmarkFoldedAdd(b *testing.B) {
	var f Folded
	frames := []string{"sh", "main", "execute_command_internal", "do_syscall_64_[k]"}
	for b.Loop() {
		f.Add(frames, 1)
	}
}
