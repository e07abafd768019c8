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
	"unicode/utf8"

	"github.com/borescope/borescope/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite internal/testdata/api with the names that are public now")

// Limits for each package's lines, each type's methods and the module's public names. Split
// what exceeds them.
const (
	mostLines   = 5500
	mostMethods = 60
	mostNames   = 1852

	// probe/script has a type for each kind of node; its names are counted separately.
	mostScriptNames = 170
)

// large has the limits of the packages that may have more lines than mostLines. Such a limit
// may only fall, with the package's lines.
var large = map[string]int{
	"probe":  8150, // 8000 with lines of any width
	"symbol": 6770, // 7000
}

// slack is the number of lines that a package may have less than its limit in large before
// the limit has to fall too.
const slack = 200

// TestSizes checks that packages are small enough to read through.
func TestSizes(t *testing.T) {
	for _, p := range packages(t) {
		lines := 0
		for name, f := range p.files {
			if !p.isTest(name) {
				lines += fset.File(f.Pos()).LineCount()
			}
		}
		most, named := large[p.dir]
		switch {
		case !named && lines > mostLines:
			t.Errorf("%s has %d lines, more than %d: what are its parts?", p.dir, lines, mostLines)
		case named && lines > most:
			t.Errorf("%s has %d lines, more than the %d that it may have", p.dir, lines, most)
		case named && lines < most-slack:
			t.Errorf("%s has %d lines: its line in large, %d, is to fall", p.dir, lines, most)
		}
	}
}

// TestReceivers checks that types have few enough methods to remember.
func TestReceivers(t *testing.T) {
	for _, p := range packages(t) {
		methods := map[string]map[string]bool{} // by type; a method for several systems counts once
		for name, f := range p.files {
			if p.isTest(name) {
				continue
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					typ := p.dir + "." + receiver(fn)
					if methods[typ] == nil {
						methods[typ] = map[string]bool{}
					}
					methods[typ][fn.Name.Name] = true
				}
			}
		}
		for typ, names := range methods {
			if len(names) > mostMethods {
				t.Errorf("%s has %d methods, more than %d", typ, len(names), mostMethods)
			}
		}
	}
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

// TestPublicNames checks that public names change only on purpose, and are few.
func TestPublicNames(t *testing.T) {
	names, scriptNames, kept := 0, 0, map[string]bool{}
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
		for _, line := range have {
			switch {
			case strings.HasPrefix(line, "field "):
			case strings.HasPrefix(p.dir+"/", "probe/script/"):
				scriptNames++
			default:
				names++
			}
		}
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
	if names > mostNames || names < mostNames-slack {
		t.Errorf("%d public names, want up to mostNames, %d, which falls with them", names, mostNames)
	}
	if scriptNames > mostScriptNames {
		t.Errorf("%d public names in probe/script, want up to %d", scriptNames, mostScriptNames)
	}
}

// TestWidth checks that lines fit into 100 columns. Lines with a long string may be longer,
// so that the string can be found in one piece; so may code and output in comments.
func TestWidth(t *testing.T) {
	const most, long = 100, 50
	for _, p := range packages(t) {
		for name, f := range p.files {
			if p.isTest(name) || ast.IsGenerated(f) {
				continue
			}
			excused := map[int]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
					line := fset.Position(s.Pos()).Line
					for part := range strings.SplitSeq(s.Value, "\n") {
						excused[line] = excused[line] || utf8.RuneCountInString(part) >= long
						line++
					}
				}
				return true
			})
			line := 0
			for text := range strings.SplitSeq(p.text[name], "\n") {
				verbatim := strings.HasPrefix(text, "//\t") || strings.HasPrefix(text, "//go:")
				if line++; utf8.RuneCountInString(text) > most && !excused[line] && !verbatim {
					t.Errorf("%s:%d has more than %d columns", filepath.Join(p.dir, name), line, most)
				}
			}
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

// linked is the number of packages from outside this module that README's program consists
// of, including the standard library's (145 of them are cilium/ebpf and its dependencies).
// unlinked are packages that it must not link. This module's own packages are not counted.
const linked = 194

var unlinked = []string{"github.com/google/pprof/profile", "html", "archive/tar", "runtime/metrics", "net/http", "text/template", "golang.org/x/arch/x86/x86asm"}

// TestReadmeProgram checks that README's program compiles, and links only what it needs.
func TestReadmeProgram(t *testing.T) {
	testenv.Need(t, testenv.Go)
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
	if len(deps) > linked {
		t.Errorf("it links %d packages of others, more than %d", len(deps), linked)
	}
	for _, dep := range unlinked {
		if slices.Contains(deps, dep) {
			t.Errorf("it links %s", dep)
		}
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
