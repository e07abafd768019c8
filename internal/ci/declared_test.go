package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// elsewhere are packages whose goroutines or mounts another package's tests are
// about, or that are tools of the tests themselves.
var elsewhere = []string{"internal/ci", "internal/testenv", "internal/vmtest", "internal/bench", "probe/internal/probetest"}

// TestDeclared checks that a package that starts goroutines, even if only in its tests, is
// declared for race, and one that needs tracefs or a BPF file system for bare. Tools need no
// declaration: examples runs each on a bare machine, and the goroutines of most are the
// tests'.
func TestDeclared(t *testing.T) {
	root := filepath.Join("..", "..")
	m, err := readMatrix(filepath.Join(root, ".ci", "matrix.txt"), false)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]map[string]string{"race": {}, "bare": {}} // column, package, file
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples") {
			return filepath.SkipDir
		}
		pkg, _ := filepath.Rel(root, filepath.Dir(path))
		pkg = filepath.ToSlash(pkg)
		if !strings.HasSuffix(path, ".go") || slices.ContainsFunc(elsewhere, func(e string) bool {
			return pkg == e || strings.HasPrefix(pkg, e+"/")
		}) {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, column := range asksFor(file) {
			why[column][pkg] = path
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for column, packages := range why {
		if len(packages) < 5 {
			t.Errorf("%s: only %v was found", column, packages)
		}
		for pkg, path := range packages {
			if !slices.Contains(m[pkg], column) {
				t.Errorf("%s is not declared for %s, which %s asks for", pkg, column, path)
			}
		}
	}
}

// asksFor lists the columns that a file asks for.
func asksFor(file *ast.File) []string {
	found := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found["race"] = true
		case *ast.CallExpr: // of a sync.WaitGroup's Go
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Go" {
				found["race"] = true
			}
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			switch {
			case x == nil:
			case x.Name == "tracefs", x.Name == "testenv" && slices.Contains([]string{"Tracefs", "TracefsDir", "BPFFSDir"}, n.Sel.Name):
				found["bare"] = true
			}
		}
		return true
	})
	var columns []string
	for _, c := range []string{"bare", "race"} {
		if found[c] {
			columns = append(columns, c)
		}
	}
	return columns
}

// TestDeclaredTests: a test that is declared by its name is there, in the files of its package.
func TestDeclaredTests(t *testing.T) {
	root := filepath.Join("..", "..")
	m, err := readMatrix(filepath.Join(root, ".ci", "matrix.txt"), true)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for row := range m {
		pkg, test, ok := strings.Cut(row, ":")
		if !ok {
			continue
		}
		named++
		test, _, _ = strings.Cut(test, "/")
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "func "+test+"(")
		}) {
			t.Errorf("%s is declared, but there is no such test", row)
		}
	}
	if named < 100 {
		t.Errorf("only %d tests are declared by their names", named)
	}
}
