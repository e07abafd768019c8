package borescope_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// writers are the places in tools that write bytes without escaping, with the reasons.
var writers = map[string]string{
	"examples/hist/main.go: io.WriteString": "a heat map, with its colours",
	"examples/replay/main.go: w.Write":      "-cat: a file as it is",
	"examples/replay/main.go: io.Copy":      "the same",
	"examples/symbolize/print.go: w.Write":  "lines put together by hand, their names by escape.Terminal",
	"examples/tplist/run.go: l.w.Write":     "lines put together by hand, their names by escape.Terminal",
	"examples/elfnotes/run.go: io.Copy":     "standard input, to a temporary file",
	"probe/tool/tool.go: io.WriteString":    "-h",
	"probe/tool/output.go: io.WriteString":  "what clears a terminal",
	"probe/tool/output.go: o.w.Write":       "where all output goes",
	"probe/tool/output.go: s.out.Write":     "JSON of escape.Marshal",
	"probe/tool/output.go: t.s.out.Write":   "a line of cells",
	"probe/tool/output.go: o.buf.Write":     "JSON in memory",
	"probe/tool/command.go: c.gate.Write":   "a pipe to a command",
	"usdt/cmd/usdtlink/run.go: f.Write":     "the linked file",
	"probe/tool/cli/cli.go: fmt.Fprintf":    "lines of escape.Errors",
}

// TestToolsPrintSafely finds places where tools print text that is not made safe for a
// terminal, since names can contain anything. Tools print with package escape, or with a
// tool.Session, which uses it.
func TestToolsPrintSafely(t *testing.T) {
	used := map[string]bool{}
	tools := []string{"examples/*", "probe/tool", "probe/tool/cli", "usdt/cmd/*"}
	for _, p := range packages(t) {
		if !slices.ContainsFunc(tools, func(pattern string) bool { ok, _ := path.Match(pattern, p.dir); return ok }) {
			continue
		}
		for name, f := range p.files {
			if p.isTest(name) {
				continue
			}
			for _, d := range f.Decls {
				for _, raw := range rawPrints(d) {
					place := path.Join(p.dir, name) + ": " + raw.name
					if used[place] = true; writers[place] == "" {
						t.Errorf("%s: %s prints names as they are: use package escape", fset.Position(raw.pos), raw.name)
					}
				}
			}
		}
	}
	for place := range writers {
		if !used[place] {
			t.Errorf("%s is not there any more", place)
		}
	}
}

// dotted returns a chain of names, such as "l.w.Write", "" for any other expression.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if of := dotted(e.X); of != "" {
			return of + "." + e.Sel.Name
		}
	}
	return ""
}

type rawPrint struct {
	name string
	pos  token.Pos
}

// rawPrints finds calls that write without escaping, except into a buffer that the
// declaration declares, and uses of such functions as values.
func rawPrints(d ast.Decl) (found []rawPrint) {
	buffers := buffersIn(d)
	uses(d, func(name string, call *ast.CallExpr, pos token.Pos) {
		if call != nil && printsRaw(name, call.Args, buffers) || call == nil && (isPrint(name, "Print") || isPrint(name, "Fprint")) {
			found = append(found, rawPrint{name, pos})
		}
	})
	return found
}

// uses calls f for the functions and methods that a declaration calls, and, with a nil call,
// for those that it uses as values: print := fmt.Printf.
func uses(d ast.Decl, f func(name string, call *ast.CallExpr, pos token.Pos)) {
	called := map[ast.Expr]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called[n.Fun] = true
			f(dotted(n.Fun), n, n.Pos())
		case *ast.SelectorExpr:
			if !called[n] {
				f(dotted(n), nil, n.Pos())
			}
		}
		return true
	})
}

func isPrint(name, prefix string) bool { return strings.HasPrefix(name, "fmt."+prefix) }

// buffersIn returns the names of a declaration's variables and parameters that are buffers.
func buffersIn(d ast.Decl) map[string]bool {
	buffers := map[string]bool{}
	add := func(names []*ast.Ident, typ ast.Expr) {
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		for _, name := range names {
			if typ != nil && isBuffer(typ) {
				buffers[name.Name] = true
			}
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			add(n.Names, n.Type)
		case *ast.Field:
			add(n.Names, n.Type)
		}
		return true
	})
	return buffers
}

func isBuffer(typ ast.Expr) bool {
	name := dotted(typ)
	return name == "strings.Builder" || name == "bytes.Buffer"
}

// printsRaw reports whether a call writes without escaping, and not into a buffer.
func printsRaw(name string, args []ast.Expr, buffers map[string]bool) bool {
	buffered := func() bool { // &b or b of a buffer b, or io.Discard
		e := args[0]
		if ref, ok := e.(*ast.UnaryExpr); ok && ref.Op == token.AND {
			e = ref.X
		}
		return buffers[dotted(e)] || dotted(e) == "io.Discard"
	}
	of, _, _ := strings.Cut(name, ".")
	switch {
	case isPrint(name, "Print"):
		return true
	case isPrint(name, "Fprint"), name == "json.NewEncoder", name == "io.WriteString", strings.HasPrefix(name, "io.Copy"):
		return !buffered()
	case buffers[of], of == "os" && strings.HasSuffix(name, "File"): // os.WriteFile writes whole files
		return false
	}
	return strings.HasSuffix(name, ".Write") || strings.HasSuffix(name, ".WriteString") || strings.HasSuffix(name, ".ReadFrom")
}

func TestPrintsRaw(t *testing.T) {
	for text, want := range map[string]int{
		`fmt.Println(x)`: 1, `fmt.Fprintf(w, "%s", x)`: 1, `fmt.Fprintf(&b, "%s", x)`: 0, `fmt.Fprintf(p, "%s", x)`: 0, `os.Stdout.WriteString(x)`: 1,
		`l.w.Write(x)`: 1, `b.WriteString(x)`: 0, `p.WriteString(x)`: 0, `w.WriteString(x)`: 1, `json.NewEncoder(w)`: 1, `json.NewEncoder(&b)`: 0,
		`io.Copy(w, r)`: 1, `io.Copy(&b, r)`: 0, `io.Copy(io.Discard, r)`: 0, `w.ReadFrom(r)`: 1, `escape.Fprintf(w, "%s", x)`: 0, `f(x).y()`: 0, `fmt.Fprintf(&w, x)`: 1,
		`say := fmt.Fprintf; say(w, x)`: 1, `f(fmt.Println)`: 1, `io.WriteString(w, x)`: 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f(w io.Writer, p *strings.Builder) { var b bytes.Buffer; "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := rawPrints(f.Decls[0]); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}
