package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// goConstants returns the wanted constants of golang.org/x/sys/unix for an architecture.
func goConstants(arch string) (map[string]int64, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		return nil, fmt.Errorf("go list golang.org/x/sys: %w", err)
	}
	values := map[string]int64{}
	for _, name := range []string{"zerrors_linux.go", "zerrors_linux_" + arch + ".go"} {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)),
			"unix", name), nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
				return true
			}
			if v, err := literal(spec.Values[0]); err == nil && wanted(spec.Names[0].Name) {
				values[spec.Names[0].Name] = v
			}
			return false
		})
	}
	return values, nil
}

var errNoLiteral = errors.New("no literal")

// literal returns the value of 3, -3 and syscall.Errno(3).
func literal(e ast.Expr) (int64, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT {
			u, err := strconv.ParseUint(e.Value, 0, 64)
			return int64(u), err
		}
	case *ast.UnaryExpr:
		v, err := literal(e.X)
		return -v, err
	case *ast.CallExpr:
		if len(e.Args) == 1 {
			return literal(e.Args[0])
		}
	}
	return 0, errNoLiteral
}
