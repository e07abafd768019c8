package borescope_test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// owned are operations that only one package may implement: the names or constant texts that
// show that a declaration implements one, and the other places that may, with the reasons.
var owned = []struct {
	what, owner  string
	names, texts []string
	others       map[string]string
}{
	{"opens ELF files", "internal/elffile", []string{"elf.NewFile", "elf.Open"}, nil, map[string]string{}},
	{"decodes symbols", "internal/elffile", []string{"elf.Sym64Size", "elf.Sym32Size"}, nil, map[string]string{
		"symbol/elftable.go readAny":                          "a part of a table",
		"probe/internal/usercode/boundaries.go readFunctions": "how many there may be",
	}},
	{"reads kallsyms", "internal/kallsyms", nil, []string{"proc/kallsyms", "/proc/kallsyms"}, nil},
	{"looks for debug files", "internal/elffile", nil, []string{"/.build-id/", ".build-id", ".gnu_debuglink"}, nil},
}

// TestOwners checks that the operations in owned are implemented only there.
func TestOwners(t *testing.T) {
	for _, o := range owned {
		used := map[string]bool{}
		declarations(t, func(dir, key string, d ast.Decl) {
			for _, at := range doneIn(d, o.names, o.texts) {
				if used[key] = true; dir != o.owner && o.others[key] == "" {
					t.Errorf("%s: %q %s, which is for %s to do; else say why in owned", fset.Position(at), key, o.what, o.owner)
				}
			}
		})
		for key := range o.others {
			if !used[key] {
				t.Errorf("%s: nothing there %s any more", key, o.what)
			}
		}
	}
}

// doneIn finds names, and constant texts, in a declaration.
func doneIn(d ast.Decl, names, texts []string) (found []token.Pos) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if slices.Contains(names, dotted(n)) {
				found = append(found, n.Pos())
			}
		case *ast.BasicLit:
			if slices.Contains(texts, text(n)) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// TestArchitecture checks that the files that ARCHITECTURE.md names exist.
func TestArchitecture(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range packages(t) {
		for name := range p.files {
			names = append(names, "/"+p.dir+"/"+name)
		}
	}
	files := regexp.MustCompile("`([a-z0-9_/*]+\\.go)`").FindAllSubmatch(page, -1)
	if len(files) < 50 {
		t.Errorf("only %d files are named", len(files))
	}
	for _, m := range files {
		want := regexp.MustCompile("/" + strings.ReplaceAll(regexp.QuoteMeta(string(m[1])), `\*`, ".*") + "$")
		if !slices.ContainsFunc(names, want.MatchString) {
			t.Errorf("no file is called %s", m[1])
		}
	}
}
