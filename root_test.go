// Package borescope_test checks the module as a whole: which packages may import which
// others, which modules may be used, and what every package must have.
package borescope_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/borescope/borescope"

// folders are exactly the top-level folders. A new concept becomes a sub-package of the one
// that it refines.
var folders = []string{
	"elfnotes", "examples", "hist", "internal", "mapx", "pmc", "probe", "stack", "symbol", "usdt",
}

const (
	cilium = "github.com/cilium/ebpf"
	asm    = cilium + "/asm"
	btf    = cilium + "/btf"
)

// imports has the packages that a package may import directly, besides the standard library
// and this module's internal packages. A name ending in "/..." includes all packages below
// it. A package that is not listed may import what its nearest listed parent may, and that
// parent.
var imports = map[string][]string{
	"elfnotes":                 {},
	"hist":                     {},
	"symbol":                   {"elfnotes", "github.com/ianlancetaylor/demangle"},
	"symbol/lifecycle":         {"symbol", "pmc"},
	"stack":                    {"elfnotes"},
	"stack/bpfwalk":            {"stack", "stack/python", cilium, asm},
	"stack/profile":            {"stack", "github.com/google/pprof/profile"},
	"stack/python":             {"stack", "elfnotes", "symbol"},
	"stack/perfdata":           {"stack", "elfnotes", "symbol"},
	"stack/core":               {"stack", "elfnotes", "symbol"},
	"usdt":                     {"elfnotes", "usdt/arg"},
	"usdt/arg":                 {},
	"usdt/cmd":                 {"usdt", "usdt/arg", "elfnotes", "probe/tool/cli"},
	"internal/compatbuild":     {"probe/sysnames"},
	"internal/lifebuild":       {},
	"internal/walking":         {"symbol"},
	"internal/usdtfire":        {"usdt/arg", "golang.org/x/sys/unix"},
	"pmc":                      {"golang.org/x/sys/unix"},
	"pmc/measure":              {"pmc"},
	"mapx":                     {cilium, btf, "hist"}, // btf: the kernel's types of a map's key and value
	"mapx/recording":           {"mapx", cilium},
	"mapx/recording/hostfs":    {"mapx/recording"},
	"mapx/internal/maptest":    {cilium, cilium + "/rlimit"},
	"probe":                    {"probe/env", cilium, btf, "usdt", "pmc", "symbol"},
	"probe/env":                {btf, "symbol"},
	"probe/deploy":             {"probe", "probe/env", cilium, btf}, // btf: layouts of maps
	"probe/broker":             {"probe", "probe/env", "probe/deploy", cilium, "golang.org/x/sys/unix"},
	"probe/container":          {},
	"probe/internal":           {"probe/env", cilium, btf},
	"probe/internal/spelling":  {},
	"probe/internal/perfevent": {"pmc"},
	"probe/internal/probetest": {"probe/env", cilium, asm, btf, cilium + "/link", "golang.org/x/sys/unix"},
	"probe/ir":                 {"probe", "stack/bpfwalk", btf},
	"probe/ir/internal":        {"probe/ir", "probe", "probe/env", "stack", "stack/bpfwalk", "usdt", cilium, asm, btf},
	"probe/ir/bpf": {
		"probe/ir", "probe", "probe/env", "mapx", "mapx/recording", "hist", "stack", "stack/bpfwalk", "symbol", cilium, btf,
	},
	"probe/ir/bpf/bpfhttp": {"probe/ir", "probe/ir/bpf", "probe", "mapx", "hist"},
	"probe/ir/interp":      {"probe/ir", "probe", "stack"},
	"probe/ir/inspect":     {"probe/ir", "probe/ir/bpf", "probe", "stack", cilium, asm, "golang.org/x/arch/..."},
	"probe/action":         {"probe/ir", "probe/ir/bpf", "probe", "probe/env", "mapx", "hist"},
	"probe/script": {
		"probe/script/...", "probe/ir", "probe/ir/bpf", "probe", "probe/env", "mapx", "mapx/recording", "hist", "symbol", "symbol/lifecycle", "stack/profile", cilium, btf,
	},
	"probe/script/syntax": {},
	"probe/script/config": {"probe/script/syntax"},
	"probe/script/types":  {"probe/script/config", "probe/script/syntax/...", "probe/script/internal/...", btf},
	"probe/script/system": {
		"probe/script/config", "probe/script/internal/limit", "probe/script/types", "probe/script/syntax", "probe", "probe/env",
		"probe/internal/prototype", btf,
	},
	// Shared by probe/script's passes.
	"probe/script/internal":       {"probe/script/syntax"},
	"probe/script/internal/limit": {"probe/script/config", "probe/script/syntax"},
	"probe/script/internal/lower": {"probe/script/syntax", "probe/script/types", "probe/script/internal/life", "probe", "probe/ir", "pmc", btf},
	"probe/script/output":         {"probe/script/types", "probe/ir/bpf", "probe/sysnames", "mapx", "hist", btf},
	// collect assembles its programs itself, with bpfwalk's walker in them.
	"stack/collect": {
		"stack", "stack/bpfwalk", "stack/profile", "stack/python", "probe", "probe/env", "mapx", "mapx/recording", "symbol", "symbol/lifecycle", cilium, asm, btf,
	},
	"probe/sysnames": {},
	"probe/tool":     {"all"},
	"probe/tool/cli": {},
	"examples":       {"all"},

	"internal": {
		"golang.org/x/sys/...", "github.com/klauspost/compress/...",
		"github.com/ulikunitz/xz/...", "github.com/pierrec/lz4/v4/...",
	},
	"internal/kernel": {cilium, asm, btf, "golang.org/x/sys/..."},
	"internal/bpfasm": {asm},
	"internal/cdecl":  {btf},
	"internal/ctype":  {btf},
}

// all returns what "all" means in imports: everything that any listed package may import.
func all() []string {
	var names []string
	for pkg, allowed := range imports {
		if !strings.HasPrefix(pkg, "internal") {
			names = append(append(names, pkg+"/..."), allowed...)
		}
	}
	return names
}

// modules are the modules that go.mod may require. A new one needs a line in
// the design that says what it replaces.
var modules = []string{
	cilium, "github.com/ianlancetaylor/demangle", "golang.org/x/arch", "golang.org/x/sys",
	"github.com/klauspost/compress", "github.com/ulikunitz/xz", "github.com/pierrec/lz4/v4",
	"github.com/google/pprof",
}

// pkg is one folder with Go files, parsed whatever its build constraints.
type pkg struct {
	dir   string
	files map[string]*ast.File // by file name, tests included
}

func (p *pkg) isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// library reports whether users of the module import the package.
func (p *pkg) library() bool {
	for _, f := range p.files {
		if f.Name.Name == "main" {
			return false
		}
	}
	parts := strings.Split(p.dir, "/")
	return p.dir != "." && parts[0] != "examples" && !slices.Contains(parts, "internal")
}

var fset = token.NewFileSet()

// packages returns the packages of the module, nested modules and testdata left out. Tests
// must not change them.
func packages(t *testing.T) []*pkg {
	t.Helper()
	ps, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// parsed parses the module, once for all tests.
var parsed = sync.OnceValues(func() ([]*pkg, error) {
	byDir := map[string]*pkg{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(file, d)
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		if byDir[dir] == nil {
			byDir[dir] = &pkg{dir, map[string]*ast.File{}}
		}
		byDir[dir].files[filepath.Base(file)] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	var ps []*pkg
	for _, p := range byDir {
		ps = append(ps, p)
	}
	sort.Slice(ps, func(i, j int) bool { return ps[i].dir < ps[j].dir })
	return ps, nil
})

func skipDir(dir string, d fs.DirEntry) error {
	name := d.Name()
	if dir == "." {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func TestFolders(t *testing.T) {
	es, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range es {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if e.IsDir() {
			have = append(have, e.Name())
		} else if filepath.Ext(e.Name()) == "" && isProgram(t, e.Name()) { // .test is in .gitignore
			t.Errorf("%s is a program that was built here: remove it", e.Name())
		}
	}
	if !slices.Equal(have, folders) {
		t.Errorf("top-level folders are\n%v, want\n%v", have, folders)
	}
}

// isProgram reports whether a file is an ELF file, as go build leaves it.
func isProgram(t *testing.T, file string) bool {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "\x7fELF"
}

func TestImports(t *testing.T) {
	dirs := map[string]bool{}
	for _, p := range packages(t) {
		for dir := p.dir; dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
		for name, f := range p.files {
			for _, spec := range f.Imports {
				what, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if what == "C" {
					t.Errorf("%s/%s uses cgo", p.dir, name)
				}
				if !p.isTest(name) && !mayImport(p.dir, what) {
					t.Errorf("%s/%s imports %s", p.dir, name, what)
				}
			}
		}
	}
	for row := range imports {
		if !dirs[row] {
			t.Errorf("imports lists %s, and there is no such folder", row)
		}
	}
}

// mayImport reports whether the table allows it.
func mayImport(dir, what string) bool {
	if first, _, _ := strings.Cut(what, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	inner, own := strings.CutPrefix(what, module+"/")
	if own && slices.Contains(strings.Split(inner, "/"), "internal") {
		return true // Go itself restricts these imports
	}
	listed := dir
	for imports[listed] == nil {
		if listed == "." || listed == "/" {
			return false
		}
		listed = path.Dir(listed)
	}
	allowed := imports[listed]
	if slices.Contains(allowed, "all") {
		allowed = all()
	}
	if listed != dir && own && inner == listed {
		return true // a refinement may use what it refines
	}
	// A package may use the packages below it that imports does not list.
	if own && imports[inner] == nil && strings.HasPrefix(inner, dir+"/") {
		return true
	}
	if own {
		what = inner
	}
	for _, a := range allowed {
		base, tree := strings.CutSuffix(a, "/...")
		if what == base || tree && strings.HasPrefix(what, base+"/") {
			return true
		}
	}
	return false
}

// TestMayImport tests mayImport.
func TestMayImport(t *testing.T) {
	for _, c := range []struct {
		dir, what string
		ok        bool
	}{
		{"elfnotes", "debug/elf", true},
		{"elfnotes", module + "/internal/feature", true},
		{"elfnotes", "golang.org/x/sys/unix", false},
		{"symbol", module + "/elfnotes", true},
		{"symbol", module + "/stack", false},
		{"mapx", cilium, true},
		{"mapx", asm, false},
		{"stack", module + "/stack/collect", false},
		{"probe", module + "/probe/action", false},
		{"probe", "golang.org/x/arch/x86/x86asm", false},
		{"probe/tool", module + "/stack/collect", true},
		{"examples/profile", module + "/probe/tool", true},
		{"examples/profile", "example.com/other", false},
		{"internal/feature", cilium, false},
		{"internal/kernel", cilium, true},
		{"internal/procfs", module + "/symbol", false},
	} {
		if got := mayImport(c.dir, c.what); got != c.ok {
			t.Errorf("mayImport(%s, %s) = %v", c.dir, c.what, got)
		}
	}
}

func TestModules(t *testing.T) {
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "v") {
			continue // no requirement, or one with "// indirect"
		}
		if !slices.Contains(modules, fields[0]) {
			t.Errorf("go.mod requires %s, which is not among the allowed modules", fields[0])
		}
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range packages(t) {
		documented, code := false, false
		for name, f := range p.files {
			if !p.isTest(name) {
				code = true
				documented = documented || f.Doc != nil
			}
		}
		if code && !documented {
			t.Errorf("%s has no package comment", p.dir)
		}
	}
}

func TestExamples(t *testing.T) {
	for _, p := range packages(t) {
		if !p.library() {
			continue
		}
		var tests []*ast.File
		for name, f := range p.files {
			if p.isTest(name) {
				tests = append(tests, f)
			}
		}
		if len(doc.Examples(tests...)) == 0 {
			t.Errorf("%s has no Example", p.dir)
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, f := range libraryFiles(t) {
		for _, missing := range undocumented(f) {
			t.Errorf("%s: %s has no comment", fset.Position(missing.Pos()), missing.Name)
		}
	}
}

// libraryFiles returns the files that users of the module import, without tests.
func libraryFiles(t *testing.T) (files []*ast.File) {
	t.Helper()
	for _, p := range packages(t) {
		for name, f := range p.files {
			if p.library() && !p.isTest(name) {
				files = append(files, f)
			}
		}
	}
	return files
}

// undocumented lists the exported names of a file without a comment.
func undocumented(f *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				names = append(names, undocumentedSpec(d, s)...)
			}
		}
	}
	return names
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !exported {
			exported = id.IsExported()
			return false
		}
		return !exported
	})
	return exported
}

// undocumentedSpec accepts a comment on a group of constants or variables for all of them.
func undocumentedSpec(d *ast.GenDecl, s ast.Spec) []*ast.Ident {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil {
			return nil
		}
		var names []*ast.Ident
		for _, n := range s.Names {
			if n.IsExported() {
				names = append(names, n)
			}
		}
		return names
	}
	return nil
}

// TestLibraryManners checks what the library promises: no init functions, no goroutines of
// its own, no logging, no exit. Tools do not print with fmt to standard output.
func TestLibraryManners(t *testing.T) {
	for _, p := range packages(t) {
		tool := strings.HasPrefix(p.dir, "examples/") || strings.HasPrefix(p.dir, "usdt/cmd/")
		if !p.library() && !tool {
			continue
		}
		for name, f := range p.files {
			if p.isTest(name) {
				continue
			}
			for _, problem := range badManners(f) {
				// A tool is a program of its own, but it prints to its Output, which makes
				// names safe for a terminal.
				if tool && !strings.Contains(problem, ": fmt.Print") {
					continue
				}
				// Tool.Run and cli.Main may start a goroutine that ends before they return: they
				// are the frame of a command, not library functions.
				frame := p.dir == "probe/tool" || p.dir == "probe/tool/cli"
				if frame && strings.HasSuffix(problem, startsGoroutine) {
					continue
				}
				// The broker is a separate program: it serves clients, takes their rights on
				// threads that end with it, and can't wait for their files.
				if p.dir == "probe/broker" && strings.HasSuffix(problem, startsGoroutine) {
					continue
				}
				// The reader of kallsyms reads ahead while the kernel prints it. Its
				// goroutine ends before the call that started it returns.
				if strings.HasPrefix(problem, "symbol/readahead.go:") && strings.HasSuffix(problem, startsGoroutine) {
					continue
				}
				// A caller of Follow, of Watch, of NewProfiler or of a Handler asks for goroutines, and
				// ends them by a call.
				asked := strings.HasPrefix(problem, "stack/collect/watch.go:") || p.dir == "stack/collect/collecthttp" ||
					strings.HasPrefix(problem, "symbol/lifecycle/follow.go:")
				if asked && strings.HasSuffix(problem, startsGoroutine) {
					continue
				}
				// Program.Run and Attach of a script end their goroutines before they, or the session,
				// have ended.
				if p.dir == "probe/script" && strings.HasSuffix(problem, startsGoroutine) {
					continue
				}
				// A package that only tests import may have an init function that does
				// nothing in other programs.
				if p.dir == "probe/tool/tooltest" && strings.HasSuffix(problem, "init function") {
					continue
				}
				t.Error(problem)
			}
		}
	}
}

var rude = []string{"os.Exit", "fmt.Print", "fmt.Println", "fmt.Printf", "log.Print", "log.Fatal", "log.Printf", "log.Println", "log.Fatalf"}

const startsGoroutine = "starts a goroutine"

func badManners(f *ast.File) []string {
	var problems []string
	report := func(n ast.Node, what string) {
		problems = append(problems, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				report(n, "init function")
			}
		case *ast.GoStmt:
			report(n, startsGoroutine)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(rude, x.Name+"."+n.Sel.Name) {
				report(n, x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return problems
}

// TestMains checks that every package's tests run under testenv.Main, which limits their
// memory and finds what they leave.
func TestMains(t *testing.T) {
	for _, p := range packages(t) {
		tests, found := false, false
		for name, f := range p.files {
			if !p.isTest(name) {
				continue
			}
			tests = true
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "TestMain" {
					found = found || callsMain(fn)
				}
			}
		}
		if tests && !found {
			t.Errorf("%s: no TestMain that calls testenv.Main", p.dir)
		}
	}
}

// TestChildren checks that tests start processes with testenv.Command, so that they end with
// the test.
func TestChildren(t *testing.T) {
	for _, p := range packages(t) {
		for name, f := range p.files {
			if !p.isTest(name) && p.dir != "probe/tool/tooltest" {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Command") {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "exec" {
						t.Errorf("%v: exec.%s in a test: testenv.%[2]s starts what ends with it", fset.Position(sel.Pos()), sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// callsMain reports whether a TestMain calls the Main of testenv, or that of tooltest, which
// calls it.
func callsMain(fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Main" {
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && (x.Name == "testenv" || x.Name == "tooltest")
		}
		return true
	})
	return found
}
