package borescope_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// pageFile matches a Go file that the page names; * in it is any text.
	pageFile = regexp.MustCompile("`([a-z0-9_/*]+\\.go)`")
	// symbolIn matches "`Plan.Attach` (`attach.go`": what the file declares.
	symbolIn = regexp.MustCompile("`([A-Za-z0-9_.]+)(?:\\[[^`]*\\])?` \\(`([a-z0-9_/]+\\.go)`")
	// fileHas matches "`ring_linux.go`: `copyNext`, `wait`", the same the other way round.
	fileHas = regexp.MustCompile("`([a-z0-9_/]+\\.go)`: (`[A-Za-z0-9_.]+`(?:(?:, | and )`[A-Za-z0-9_.]+`)*)")
)

// TestArchitecture checks that the files that ARCHITECTURE.md names exist, and declare what
// it says is in them.
func TestArchitecture(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string][]string{} // by path
	for _, p := range packages(t) {
		for name, f := range p.files {
			declared["/"+path.Join(p.dir, name)] = declarationsOf(f)
		}
	}
	files := pageFile.FindAllSubmatch(page, -1)
	if len(files) < 50 {
		t.Errorf("only %d files are named", len(files))
	}
	for _, m := range files {
		want := regexp.MustCompile("/" + strings.ReplaceAll(regexp.QuoteMeta(string(m[1])), `\*`, ".*") + "$")
		found := false
		for name := range declared {
			found = found || want.MatchString(name)
		}
		if !found {
			t.Errorf("no file is called %s", m[1])
		}
	}
	symbols := symbolsOn(string(page))
	if len(symbols) < 20 {
		t.Errorf("only %d symbols are named with their files", len(symbols))
	}
	for _, s := range symbols {
		found := false
		for name, has := range declared {
			found = found || strings.HasSuffix(name, "/"+s.file) && declares(has, s.name)
		}
		if !found {
			t.Errorf("%s does not declare %s", s.file, s.name)
		}
	}
}

type pageSymbol struct{ file, name string }

// symbolsOn returns the symbols that a page names together with a file.
func symbolsOn(page string) (all []pageSymbol) {
	for _, m := range symbolIn.FindAllStringSubmatch(page, -1) {
		if !strings.HasSuffix(m[1], ".go") { // `a.go` (`b.go`): two files
			all = append(all, pageSymbol{m[2], m[1]})
		}
	}
	for _, m := range fileHas.FindAllStringSubmatch(page, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[2], -1) {
			all = append(all, pageSymbol{m[1], name[1]})
		}
	}
	return all
}

// declarationsOf lists what a file declares: "Attach", and "Plan.Attach" for a method.
func declarationsOf(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
			if d.Recv != nil {
				names = append(names, receiver(d)+"."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}

// declares reports whether a name is among those that a file declares, with or without its
// package: "probe.Resolve", "symbol.Processes.Process".
func declares(names []string, name string) bool {
	_, inPackage, _ := strings.Cut(name, ".")
	return slices.Contains(names, name) || slices.Contains(names, inPackage)
}

// TestSymbolsOn tests symbolsOn and declares.
func TestSymbolsOn(t *testing.T) {
	got := symbolsOn("`p.Open[T]` (`a.go`) and `T.M` (`b/c.go`; `d.go`), `x` maps (`e.go`: `f`, `g` and `H.i`, `j` does), `k.go` (`l.go`)")
	want := []pageSymbol{{"a.go", "p.Open"}, {"b/c.go", "T.M"}, {"e.go", "f"}, {"e.go", "g"}, {"e.go", "H.i"}, {"e.go", "j"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, want := range map[string]bool{"Open": true, "p.Open": true, "p.T.M": true, "M": true, "p.U.M": false, "Ope": false} {
		if declares([]string{"Open", "M", "T.M"}, name) != want {
			t.Errorf("declares %s: %v", name, !want)
		}
	}
}
