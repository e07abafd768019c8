package imports_test

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/internal/imports"
	"github.com/borescope/borescope/probe/script/syntax"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

// load loads the imports of a script.
func load(t *testing.T, script string, dirs ...fs.FS) (*syntax.File, syntax.Errors, error) {
	t.Helper()
	f, err := syntax.Parse("stdin", []byte(script), nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	o := &imports.Options{}
	for i, d := range dirs {
		o.Dirs = append(o.Dirs, imports.Dir{Name: string(rune('a' + i)), FS: d})
	}
	w, err := imports.Load(f, o)
	return f, w, err
}

// TestLoad: imports are added where bpftrace adds them, and only once.
func TestLoad(t *testing.T) {
	first := fstest.MapFS{
		"lib/one.bt": file(`import "deep.bt"; macro one() { 1 } begin { print(1); } end { print(2); }`),
		"lib/two.bt": file(`begin { print(3); }`),
		"lib/a.h":    file("#ifndef A\n#define A \\\n  4\nstruct a { int x; };\n#endif\n"),
		"lib/b.txt":  file("not read"), "lib/in/c.bt": file("not read"),
		"deep.bt": file(`import "lib/one.bt"; let @m = hash(3); fn f(): void { }`),
	}
	second := fstest.MapFS{"lib/three.bt": file("not read"), "x.bt": file(`end { print(5); }`)}
	f, w, err := load(t, `import "lib"; import "x.bt"; import "lib"; import "stdlib";
begin { import "lib/a.h"; print(0); }`, first, second)
	if err != nil || len(w) > 0 {
		t.Fatal(syntax.ErrorText(err), w)
	}
	var got []string
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *syntax.C:
			got = append(got, d.Text)
		case *syntax.Probe:
			got = append(got, d.Points[0].Text+" "+d.Body.Stmts[len(d.Body.Stmts)-1].At().Text())
		case *syntax.Macro:
			got = append(got, "macro "+d.Name)
		case *syntax.Func:
			got = append(got, "fn "+d.Name)
		case *syntax.MapDecl:
			got = append(got, d.Name)
		}
	}
	want := []string{
		"#ifndef A", "#define A   4", "struct a { int x; };", "#endif", "end print(5);",
		"begin print(3);", "end print(2);", "begin print(1);", "begin print(0);", "@m", "fn f", "macro one",
	}
	for i := range got {
		got[i] = strings.TrimSuffix(got[i], ";")
		if i < len(want) {
			want[i] = strings.TrimSuffix(want[i], ";")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the script has\n%q\nwant\n%q", got, want)
	}
}

// TestInclude: headers with names in quotes are included, relative to the header that names
// them.
func TestInclude(t *testing.T) {
	dir := fstest.MapFS{
		"in/a.h": file("#include \"b.h\"\n#include \"top.h\"\n#include <linux/fs.h>\nstruct a { struct b b; };"),
		"in/b.h": file("#include \"a.h\"\nstruct b { int x; };"), "top.h": file("struct t { int x; };"),
		"open.h": {Mode: 0o666},
	}
	f, w, err := load(t, "#include \"in/a.h\"\n# include \"no.h\"\n#include \"open.h\"\nbegin { }", dir)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	var got []string
	for _, d := range f.Decls {
		if c, ok := d.(*syntax.C); ok && !strings.HasPrefix(c.Text, "#") {
			got = append(got, c.Text)
		}
	}
	want := []string{"struct b { int x; };", "struct t { int x; };", "struct a { struct b b; };"}
	if !slices.Equal(got, want) {
		t.Errorf("included is %q, want %q", got, want)
	}
	if len(w) != 2 || w[0].Msg != "'no.h' file not found: what it declares is not known" ||
		!strings.Contains(w[1].Msg, "skipping") {
		t.Errorf("warnings are\n%s", w.String())
	}
}

// TestErrors: invalid imports, and their messages.
func TestErrors(t *testing.T) {
	dir := fstest.MapFS{
		"config.bt": file(`config = { stack_mode = raw } begin { }`),
		"bad.bt":    file("begin {\n  print(1;\n}"),
		"x.bpf.c":   file(""), "x.py": file(""),
		"open.bt":     {Data: []byte("begin { }"), Mode: 0o666},
		"shared":      {Mode: fs.ModeDir | 0o777},
		"shared/a.bt": file("begin { }"),
		"mixed/a.bt":  {Mode: 0o666},
		"long.bt":     file(strings.Repeat(" ", 300<<10)),
	}
	for _, test := range []struct{ name, script, want string }{
		{"missing", `import "no.bt"; begin { }`, "stdin:1:1-15: ERROR: Unable to find suitable path for import\n"},
		{"checked", `import "no.bt"; begin { }`, "HINT: checked: a/no.bt\n"},
		{"outside", `import "../no.bt"; begin { }`, "ERROR: Unable to find suitable path for import"},
		{"config", `import "config.bt"; begin { }`, "config.bt:1:1-30: ERROR: invalid `config` within import"},
		{"syntax", `import "bad.bt"; begin { }`, "bad.bt:2:10-11: ERROR: syntax: expected ')'"},
		{"program", `import "x.bpf.c"; begin { }`, `cannot import programs in C: "a/x.bpf.c"`},
		{"unknown", `import "x.py"; begin { }`, `unknown import type: "x.py"`},
		{"writable", `import "open.bt"; begin { }`, `WARNING: skipping due to global write permissions: "a/open.bt"`},
		{"folder", `import "shared/a.bt"; begin { }`, `skipping due to global write permissions: "a/shared/a.bt"`},
		{"within", `import "mixed"; begin { }`, "cowardly refusing to import"},
		{"block", `begin { import "bad.bt"; }`, "Import statements that are not at the root are limited"},
		{"blockFolder", `begin { import "mixed"; }`, "Import statements that are not at the root are limited"},
		{"long", `import "long.bt"; begin { }`, "script has 262145 bytes, more than 262144"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := load(t, test.script, dir)
			if err == nil || !strings.Contains(syntax.ErrorText(err), test.want) {
				t.Errorf("error is\n%s\nwant %q", syntax.ErrorText(err), test.want)
			}
		})
	}
}

// TestMany: the limits on imports hold.
func TestMany(t *testing.T) {
	dir := fstest.MapFS{}
	for i := range 200 {
		dir[strconv.Itoa(i)+".bt"] = file(`import "` + strconv.Itoa(i+1) + `.bt"; begin { }`)
	}
	_, _, err := load(t, `import "0.bt"; begin { }`, dir)
	if err == nil || !strings.Contains(err.Error(), "more than 100 files are imported") {
		t.Errorf("error is %v", err)
	}
	dir = fstest.MapFS{}
	for i := range 6 {
		dir["lib/"+strconv.Itoa(i)+".bt"] = file(strings.Repeat(" ", 200<<10))
	}
	_, _, err = load(t, `import "lib"; begin { }`, dir)
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("error is %v", err)
	}
	// Before, each file was parsed, however much there was already.
	dir = fstest.MapFS{}
	for i := range 4 {
		dir["lib/"+strconv.Itoa(i)+".bt"] = file("macro m() { " + strings.Repeat("a;", 50_000) + "}")
	}
	_, _, err = load(t, `import "lib"; begin { }`, dir)
	if err == nil || !strings.Contains(err.Error(), "more than 25000 nodes") {
		t.Errorf("error is %v", err)
	}
}

// TestExpandedFrom: an error in an imported file names the import.
func TestExpandedFrom(t *testing.T) {
	dir := fstest.MapFS{"m.bt": file("macro two(@m) { 2 }\nbegin { two(1); }")}
	f, _, err := load(t, "import \"m.bt\";\nend { }", dir)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	err = syntax.Expand(f, nil)
	const want = "m.bt:2:9-15: ERROR: Call to two() has arguments that do not match any definition.\n" +
		"begin { two(1); }\n        ~~~~~~\nstdin:1:1-14: ERROR: expanded from\n" +
		"import \"m.bt\";\n~~~~~~~~~~~~~\n"
	if err == nil || !strings.HasPrefix(syntax.ErrorText(err), want) {
		t.Errorf("error is\n%s\nwant\n%s", syntax.ErrorText(err), want)
	}
}

// FuzzHeader: a header's nodes have its contents in order and completely, except for comments
// and spaces.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		"#define A 1\nstruct a { int b; };\n", "/* # */ # x\n", "char *s = \"\\\"#\";\n#if 1\\\n2\n", "a // # b\n#c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := syntax.ParseHeader("h.h", []byte(text), nil)
		if err != nil {
			return
		}
		at := int32(0)
		for _, d := range h.Decls {
			c, ok := d.(*syntax.C)
			if !ok || c.Start < at || c.End <= c.Start || int(c.End) > len(text) {
				t.Fatalf("%T from %d to %d, behind %d", d, d.At().Start, d.At().End, at)
			}
			gap := strings.TrimSpace(text[at:c.Start])
			if gap != "" && !strings.HasPrefix(gap, "/") {
				t.Errorf("%q is left out", gap)
			}
			at = c.End
		}
	})
}
