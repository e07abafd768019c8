package borescope_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// openers are the functions that open a path without precautions: they wait for the writer of
// a FIFO, follow links that another user made, and read files without an end.
var openers = []string{
	"os.Open", "os.OpenFile", "os.ReadFile", "os.ReadDir", "os.DirFS", "os.OpenRoot", "os.Create",
	"unix.Open", "unix.Openat", "unix.Openat2", "syscall.Open",
}

// opens has the allowed calls of openers whose path is not a constant below /proc or /sys, by
// file and function, with the reasons. A target's files, and files in directories that others
// can write, are opened with internal/procfs.
var opens = map[string]string{
	"examples/bt/run.go checkFlags":                  "the list that the user names with -traceable-functions",
	"examples/bt/run.go read":                        "the script that the user names",
	"examples/bt/run.go run":                         "the file that the user names with -o",
	"examples/elfnotes/run.go open":                  "the file that the user names",
	"internal/cpus/cpus.go read":                     "reads below /sys",
	"internal/feature/btfid_linux.go btfID":          "a constant below /sys",
	"internal/feature/cause_linux.go openConfig":     "/boot/config-RELEASE",
	"internal/feature/perf_linux.go probeKprobe":     "a constant below /sys",
	"internal/feature/token_linux.go openToken":      "bpffs, or what the user names for one",
	"internal/kernel/cgroup_linux.go CgroupPath":     "cgroup2",
	"internal/kernel/cgroup_linux.go OpenCgroup":     "a directory of cgroup2",
	"internal/tracefs/tracefs.go Here":               "looks for tracefs, and makes sure that it is one",
	"mapx/recording/recorder.go Create":              "the directory that it has just made",
	"pmc/cgroup.go openCgroup":                       "cgroups' directories; reads below /proc",
	"pmc/pmu.go rootOf":                              "reads below /sys",
	"internal/tracefs/events_linux.go AppendLine":    "tracefs",
	"internal/tracefs/events_linux.go Sweep":         "tracefs",
	"probe/internal/cgroups/cgroups.go Open":         "a directory of a cgroup hierarchy",
	"probe/internal/perfevent/open_linux.go Threads": "/proc/PID/task",
	"probe/broker/file_linux.go inspect":             "the descriptor of a regular file",
	"probe/container/id_linux.go pathByHandle":       "cgroup2",
	"probe/deploy/deploy.go clearDir":                "bpffs, where nobody else writes (lockDir)",
	"probe/kprobe_linux.go readNumber":               "tracefs",
	"probe/deploy/lock_linux.go lockDir":             "a directory, no link",
	"probe/pin.go OpenPinned":                        "bpffs",
	"probe/pin.go Unpin":                             "bpffs",
	"probe/script/names.go Username":                 "/etc/passwd",
	"probe/script/packets.go openPackets":            "the file that the script names for packets",
	"probe/script/outside.go readBeginning":          "what the script names, without waiting, in a goroutine of its own",
	"probe/tool/cli/file.go WriteFile":               "a device or pipe that the user has it write",
	"probe/tool/cli/file.go createBeside":            "a file that did not exist",
	"probe/tool/filter.go userID":                    "/etc/passwd",
	"stack/collect/walker.go LoadWalker":             "reads below /proc",
	"symbol/jvm_linux.go attach":                     "the descriptor of a directory, and in it with os.Root",
	"usdt/process.go openDescriptor":                 "/proc/PID/fd, whose files internal/procfs opens",
}

// developers are the packages that only this project's own checks and pages use.
var developers = []string{
	"internal/bench", "internal/ci", "internal/golden", "internal/testenv", "internal/testlog", "internal/tools",
	"internal/tooltable", "internal/vmtest", "probe/internal/probetest", "probe/tool/tooltest",
}

// opener is the package that opens a target's files.
const opener = "internal/procfs"

// TestOpens checks that only one package opens the files of targets.
func TestOpens(t *testing.T) {
	used := map[string]bool{}
	declarations(t, func(dir, key string, d ast.Decl) {
		if dir == opener {
			return
		}
		for _, at := range opensIn(d) {
			if used[key] = true; opens[key] == "" {
				t.Errorf("%s: %q opens a path as it is: %s opens what may be a target's; else say why in opens", fset.Position(at), key, opener)
			}
		}
	})
	for key := range opens {
		if !used[key] {
			t.Errorf("%s opens nothing any more", key)
		}
	}
}

// declarations calls f with the declarations that users of the module link. key is the file's
// path and, for a function, its name.
func declarations(t *testing.T, f func(dir, key string, d ast.Decl)) {
	t.Helper()
	for _, p := range packages(t) {
		if slices.ContainsFunc(developers, func(d string) bool { return p.dir == d || strings.HasPrefix(p.dir, d+"/") }) {
			continue
		}
		for name, file := range p.files {
			if p.isTest(name) {
				continue
			}
			for _, d := range file.Decls {
				key := path.Join(p.dir, name)
				if fn, ok := d.(*ast.FuncDecl); ok {
					key += " " + fn.Name.Name
				}
				f(p.dir, key, d)
			}
		}
	}
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

// opensIn finds the uses of openers in a declaration, called or not, except for calls with a
// constant below /proc or /sys.
func opensIn(d ast.Decl) (found []token.Pos) {
	uses(d, func(name string, call *ast.CallExpr, pos token.Pos) {
		if slices.Contains(openers, name) && (call == nil || !isKernels(call.Args[0])) {
			found = append(found, pos)
		}
	})
	return found
}

// isKernels reports whether a path begins with /proc/ or /sys/, and its other constant parts
// do not lead out of them.
func isKernels(e ast.Expr) bool {
	begin := text(leftmost(e))
	kernels := strings.HasPrefix(begin, "/proc/") || strings.HasPrefix(begin, "/sys/")
	ast.Inspect(e, func(n ast.Node) bool {
		for _, out := range []string{"root", "cwd", "exe", "fd/", "map_files", ".."} {
			kernels = kernels && !strings.Contains(text(n), out)
		}
		return true
	})
	return kernels
}

// leftmost returns the first part of a concatenated or formatted text.
func leftmost(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return leftmost(e.X)
	case *ast.CallExpr:
		if dotted(e.Fun) == "fmt.Sprintf" {
			return leftmost(e.Args[0])
		}
	}
	return e
}

// text returns the value of a constant text, "" for any other node.
func text(n ast.Node) string {
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, _ := strconv.Unquote(lit.Value)
		return s
	}
	return ""
}

func TestOpensIn(t *testing.T) {
	for text, want := range map[string]int{
		`os.Open(name)`: 1, `os.Open("/etc/passwd")`: 1, `os.Open("/proc/self/maps")`: 0, `os.ReadFile("/proc/" + pid + "/maps")`: 0,
		`os.ReadFile("/proc/" + pid + "/root/etc/passwd")`: 1, `os.ReadFile(name + "/proc/x")`: 1, `unix.Open("/sys/"+name, 0, 0)`: 0,
		`open := os.Open; open(name)`: 1, `unix.Openat2(dir, name, how)`: 1, `procfs.Open(name)`: 0, `os.DirFS("/")`: 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := opensIn(f.Decls[0]); len(got) != want {
			t.Errorf("%s: %d found, want %d", text, len(got), want)
		}
	}
}
