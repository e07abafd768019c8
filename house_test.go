package borescope_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite internal/testdata/api with the names that are public now")

// TestSizes prints how large the packages are: lines without tests, public names with
// methods and with fields, and the type with the most methods. It is for reviewers; nothing
// has to be of some size.
func TestSizes(t *testing.T) {
	t.Logf("%7s %6s %6s  %-32s %s", "lines", "names", "fields", "package", "most methods")
	lines, names, fields := 0, 0, 0
	for _, p := range packages(t) {
		n := 0
		for name, f := range p.files {
			if !p.isTest(name) {
				n += fset.File(f.Pos()).LineCount()
			}
		}
		public, inStructs := 0, 0
		if p.library() {
			for _, name := range publicNames(p) {
				if strings.HasPrefix(name, "field ") {
					inStructs++
				} else {
					public++
				}
			}
		}
		typ, methods := mostMethods(p)
		t.Logf("%7d %6d %6d  %-32s %s %d", n, public, inStructs, p.dir, typ, methods)
		lines, names, fields = lines+n, names+public, fields+inStructs
	}
	t.Logf("%7d %6d %6d  in all", lines, names, fields)
}

// mostMethods returns the type of a package with the most methods, and their number. A
// method that files for several systems have counts once.
func mostMethods(p *pkg) (typ string, n int) {
	methods := map[string]map[string]bool{} // by type
	for name, f := range p.files {
		if p.isTest(name) {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				of := receiver(fn)
				if methods[of] == nil {
					methods[of] = map[string]bool{}
				}
				methods[of][fn.Name.Name] = true
			}
		}
	}
	for _, of := range slices.Sorted(maps.Keys(methods)) {
		if len(methods[of]) > n {
			typ, n = of, len(methods[of])
		}
	}
	return typ, n
}

// receiver returns the name of a method's type.
func receiver(fn *ast.FuncDecl) (name string) {
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// api is the directory of the lists of public names, one file for each package.
const api = "internal/testdata/api"

// TestPublicNames checks that public names change only where a review sees it.
func TestPublicNames(t *testing.T) {
	kept := map[string]bool{}
	for _, p := range packages(t) {
		if !p.library() {
			continue
		}
		have := publicNames(p)
		if len(have) == 0 {
			continue // a package with documentation only
		}
		file := filepath.Join(api, strings.ReplaceAll(p.dir, "/", "_")+".txt")
		kept[file] = true
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(have, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		for _, line := range have {
			if !slices.Contains(want, line) {
				t.Errorf("%s: new is %q (if that is meant: go test -update .)", p.dir, line)
			}
		}
		for _, line := range want {
			if !slices.Contains(have, line) {
				t.Errorf("%s: gone is %q (if that is meant: go test -update .)", p.dir, line)
			}
		}
	}
	files, err := filepath.Glob(api + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !kept[file] {
			t.Errorf("%s is of no package", file)
		}
	}
}

// publicNames returns the names that users of a package can use, including fields, sorted and
// without duplicates.
func publicNames(p *pkg) []string {
	names := map[string]bool{}
	add := func(kind, of string, ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names[kind+" "+of+id.Name] = true
			}
		}
	}
	for name, f := range p.files {
		if p.isTest(name) {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add("func", "", d.Name)
				} else if typ := receiver(d); ast.IsExported(typ) {
					add("method", typ+".", d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						add(d.Tok.String(), "", s.Names...)
					case *ast.TypeSpec:
						add("type", "", s.Name)
						addMembers(add, s)
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// addMembers adds the fields of a struct, and the methods of an interface.
func addMembers(add func(kind, of string, ids ...*ast.Ident), s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	switch typ := s.Type.(type) {
	case *ast.StructType:
		for _, f := range typ.Fields.List {
			add("field", s.Name.Name+".", f.Names...)
		}
	case *ast.InterfaceType:
		for _, f := range typ.Methods.List {
			add("method", s.Name.Name+".", f.Names...)
		}
	}
}

// unlinked are packages that README's program must not link: each is large, and of no use to
// a program that traces.
var unlinked = []string{
	"github.com/google/pprof/profile", "html", "archive/tar", "runtime/metrics", "net/http", "text/template",
	"golang.org/x/arch/x86/x86asm",
}

// TestReadmeProgram checks that README's program compiles, and links only what it needs.
func TestReadmeProgram(t *testing.T) {
	testenv.Need(t, testenv.Go, testenv.Long)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(readme), "```go\n")
	program, _, closed := strings.Cut(program, "```")
	if !ok || !closed {
		t.Fatal("README has no program")
	}
	main := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(main, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := testenv.Command(t, "go", "vet", main).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := testenv.Command(t, "go", "list", "-deps", main).Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := slices.DeleteFunc(strings.Fields(string(out)), func(dep string) bool {
		return dep == "command-line-arguments" || strings.HasPrefix(dep, module)
	})
	t.Logf("it links %d packages from outside this module, the standard library's among them", len(deps))
	for _, dep := range unlinked {
		if slices.Contains(deps, dep) {
			t.Errorf("it links %s", dep)
		}
	}
}

// TestToolsWithoutCgo checks that no tool links C, whatever compiler the machine has: with C, a
// program cannot give up its capabilities, because its threads are not Go's alone.
func TestToolsWithoutCgo(t *testing.T) {
	testenv.Need(t, testenv.Go)
	cmd := testenv.Command(t, "go", "list", "-f", "{{.ImportPath}} {{.Deps}}", "./examples/...", "./usdt/cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	tools := 0
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(line))
		tools++
		if slices.Contains(deps, "runtime/cgo") {
			t.Errorf("%s links runtime/cgo: by net, os/user or C of its own", deps[0])
		}
	}
	if tools < 40 {
		t.Errorf("only %d tools", tools)
	}
}

// TestPublicNamesOf tests publicNames.
func TestPublicNamesOf(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "", `package p
type T[K any] struct { A, b int; C struct{ D int } }
type I interface { M(); n() }
type hidden struct { E int }
func (hidden) F() {}
func (t *T[K]) G() {}
func H() {}
const ( J, k = 1, 2 )
var L int`, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := publicNames(&pkg{dir: "p", files: map[string]*ast.File{"p.go": f}})
	want := []string{"const J", "field T.A", "field T.C", "func H", "method I.M", "method T.G", "type I", "type T", "var L"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestPublicSignatures checks that users can write down and look up every type in what a package offers: a
// type of an internal package is there under a public name, as an alias with its own documentation.
func TestPublicSignatures(t *testing.T) {
	for _, f := range libraryFiles(t) {
		for _, sel := range internalTypes(f) {
			t.Errorf("%s: %s.%s can be named by this module only: give it a public name (type X = …)",
				fset.Position(sel.Pos()), sel.X, sel.Sel)
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
import "m/internal/a"
func F(int, ...*a.T) {}
func (hidden) G() a.T { return a.T{} }
func h(a.T) {}
type S struct { a.U; V, w map[a.V]int; x a.W }
type A = a.X
type I interface { m() a.Y; M(func(a.Z)) }
type hidden struct { F a.T }
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, sel := range internalTypes(f) {
		found = append(found, sel.Sel.Name)
	}
	if got := strings.Join(found, " "); got != "T U V Z" {
		t.Errorf("found in a file with such types: %s", got)
	}
}

// internalTypes returns the types of internal packages in the signatures and fields that a file exports.
func internalTypes(f *ast.File) (found []*ast.SelectorExpr) {
	internal := map[string]bool{}
	for _, imp := range f.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		internal[name] = slices.Contains(strings.Split(path, "/"), "internal")
	}
	look := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && internal[id.Name] {
					found = append(found, sel)
				}
			}
			return true
		})
	}
	exported := func(fields *ast.FieldList) {
		for _, field := range fields.List {
			if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
				look(field.Type)
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				s, ok := s.(*ast.TypeSpec)
				if !ok || !s.Name.IsExported() || s.Assign.IsValid() {
					continue
				}
				switch typ := s.Type.(type) {
				case *ast.StructType:
					exported(typ.Fields)
				case *ast.InterfaceType:
					exported(typ.Methods)
				default:
					look(typ)
				}
			}
		}
	}
	return found
}
