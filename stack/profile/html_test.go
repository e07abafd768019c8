package profile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

var htmlDataElement = regexp.MustCompile(`<script type="application/json" id="data">(.*)</script>`)

// readHTML decodes the page's data as its script does.
func readHTML(t testing.TB, page []byte) *Folded {
	t.Helper()
	m := htmlDataElement.FindSubmatch(page)
	if m == nil {
		t.Fatal("no data in the page")
	}
	var d htmlData
	if err := json.Unmarshal(m[1], &d); err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(d.Tree)
	if err != nil {
		t.Fatal(err)
	}
	next := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("tree too short")
		}
		b = b[n:]
		return int64(v)
	}
	f := &Folded{differential: d.Differential}
	var path []string
	for range d.Nodes - 1 {
		path = path[:len(path)-int(next())]
		path = append(path, d.Names[next()])
		self, base := next(), int64(0)
		if d.Differential {
			base = next()
		}
		if self > 0 || base > 0 {
			f.add(path, base, self)
		}
	}
	if len(b) != 0 || len(d.Colors) != len(d.Names) {
		t.Errorf("%d bytes left, %d colours for %d names", len(b), len(d.Colors), len(d.Names))
	}
	return f
}

func TestWriteHTML(t *testing.T) {
	mixed := readFolded(t, "mixed.folded")
	for name, f := range map[string]*Folded{
		"python3": readFolded(t, "python3.folded"), "mixed": mixed, "empty": {},
		"diff": Diff(mixed, mustFolded(t, "redis;main;memcpy 12\njava;x 3\n"), false),
	} {
		var a, b bytes.Buffer
		o := &HTMLOptions{Title: "<t> & </script>", Subtitle: `"s"`, Colors: "java"}
		if err := WriteHTML(&a, f, o); err != nil {
			t.Fatal(err)
		}
		if err := WriteHTML(&b, f, o); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: not deterministic, %v", name, err)
		}
		if n := strings.Count(a.String(), "</script>"); n != 2 {
			t.Errorf("%s: %d ends of scripts", name, n)
		}
		if regexp.MustCompile(`(src|href)=|https?://`).Match(a.Bytes()) {
			t.Errorf("%s: refers to something outside", name)
		}
		if got := readHTML(t, a.Bytes()); !got.Equal(f) {
			t.Errorf("%s: page holds\n%swant\n%s", name, got, f)
		}
	}
	for noCommands, want := range map[bool]string{false: `aria-label="command"><option`, true: `aria-label="command" hidden><option`} {
		var b bytes.Buffer
		if err := WriteHTML(&b, mixed, &HTMLOptions{NoCommands: noCommands}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("NoCommands %v: %v, want %s", noCommands, err, want)
		}
	}
	if err := WriteHTML(io.Discard, mixed, &HTMLOptions{Colors: "pink"}); err == nil {
		t.Error("unknown palette accepted")
	}
	if err := WriteHTML(brokenWriter{}, mixed, nil); !errors.Is(err, errBroken) {
		t.Errorf("write error lost: %v", err)
	}
}

// bigFolded has about n frames.
func bigFolded(n int) *Folded {
	var f Folded
	for i := range n / 8 {
		frames := []string{fmt.Sprintf("cmd%d", i%7), "main"}
		for x, d := i, 0; d < 10; d++ {
			frames = append(frames, fmt.Sprintf("function_%d_%d", d, x%(5+d*3)))
			x = x/3 + d*7919
		}
		frames = append(frames, fmt.Sprintf("leaf_%d", i))
		f.Add(frames, int64(1+i%5))
	}
	return &f
}

func BenchmarkWriteHTML(b *testing.B) {
	f := bigFolded(1_000_000)
	var n int
	for b.Loop() {
		var out bytes.Buffer
		if err := WriteHTML(&out, f, nil); err != nil {
			b.Fatal(err)
		}
		n = out.Len()
	}
	b.ReportMetric(float64(n), "bytes")
}
