package borescope_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writers are the places of tools that write bytes as they are, and why they may.
var writers = map[string]string{
	"examples/hist/main.go: io.WriteString": "a heat map, with its colours",
	"examples/replay/main.go: w.Write":      "-cat: a file as it is",
	"examples/symbolize/print.go: w.Write":  "lines put together by hand, their names by escape.Terminal",
	"examples/tplist/run.go: l.w.Write":     "lines put together by hand, their names by escape.Terminal",
	"probe/tool/tool.go: io.WriteString":    "-h",
	"probe/tool/output.go: io.WriteString":  "what clears a terminal",
	"probe/tool/output.go: o.w.Write":       "where all output goes",
	"probe/tool/output.go: s.out.Write":     "JSON of escape.Marshal",
	"probe/tool/output.go: t.s.out.Write":   "a line of cells",
	"probe/tool/output.go: o.buf.Write":     "JSON in memory",
	"probe/tool/command.go: c.gate.Write":   "a pipe to a command",
	"usdt/cmd/usdtlink/run.go: f.Write":     "the linked file",
	"internal/cli/cli.go: fmt.Fprintf":      "lines of escape.Errors",
	"probe/tool/main.go: fmt.Fprintf":       "lines of escape.Errors",
}

// TestToolsPrintSafely finds where tools print what is not made safe for a
// terminal: names are whatever their owners like. They print by package escape,
// or by a tool.Session, which does.
func TestToolsPrintSafely(t *testing.T) {
	used := map[string]bool{}
	for _, dir := range []string{"examples/*", "probe/tool", "internal/cli", "usdt/cmd/*"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || files == nil {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := dotted(call.Fun)
				place := filepath.ToSlash(file) + ": " + name
				if !printsRaw(name, call.Args) {
					return true
				}
				if used[place] = true; writers[place] == "" {
					t.Errorf("%s: %s prints names as they are: use internal/escape", fset.Position(call.Pos()), name)
				}
				return true
			})
		}
	}
	for place := range writers {
		if !used[place] {
			t.Errorf("%s is not there any more", place)
		}
	}
}

// dotted is a chain of names: "l.w.Write".
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

// printsRaw knows what writes without escaping to something that is no buffer.
func printsRaw(name string, args []ast.Expr) bool {
	of, method, _ := strings.Cut(name, ".")
	switch {
	case of == "fmt" && strings.HasPrefix(method, "Print"), name == "json.NewEncoder", name == "io.WriteString":
		return true
	case of == "fmt" && strings.HasPrefix(method, "Fprint"):
		ref, ok := args[0].(*ast.UnaryExpr) // &b, a strings.Builder
		return !ok || ref.Op != token.AND
	case of == "b", of == "text", of == "os" && strings.HasSuffix(name, "File"): // builders, and whole files
		return false
	}
	return strings.HasSuffix(name, ".Write") || strings.HasSuffix(name, ".WriteString")
}

func TestPrintsRaw(t *testing.T) {
	for text, want := range map[string]bool{
		`fmt.Println(x)`: true, `fmt.Fprintf(w, "%s", x)`: true, `fmt.Fprintf(&b, "%s", x)`: false, `os.Stdout.WriteString(x)`: true,
		`l.w.Write(x)`: true, `b.WriteString(x)`: false, `json.NewEncoder(w)`: true, `escape.Fprintf(w, "%s", x)`: false, `f(x).y()`: false,
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		call := e.(*ast.CallExpr)
		if got := printsRaw(dotted(call.Fun), call.Args); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if _, err := os.Stat("examples"); err != nil {
		t.Error(err)
	}
}
