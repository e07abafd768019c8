package types_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/internal/funcs"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// point returns an attach point of a provider.
func point(provider string) string {
	switch provider {
	case "usdt":
		return "usdt:/bin/target:a:b"
	case "uprobe", "uretprobe":
		return provider + ":/bin/target:f"
	case "tracepoint":
		return "tracepoint:a:b"
	case "profile":
		return "profile:hz:99"
	case "interval":
		return "interval:s:1"
	case "software":
		return "software:faults:1"
	case "hardware":
		return "hardware:cache-misses:1"
	case "watchpoint":
		return "watchpoint:0x1000:8:w"
	case "iter":
		return "iter:task"
	case "begin":
		return "begin"
	}
	return provider + ":f"
}

// calls returns calls of a function with its least arguments. For an argument of any type each
// call has values of another one.
func calls(r *funcs.Row) (list []string) {
	for _, some := range []string{"pid", "(uint64)1", "(int8 *)1", "comm", `"127.0.0.1"`, "kstack", "(struct sock *)1"} {
		var args []string
		for i := range r.Least {
			arg := funcs.Arg{}
			if i < len(r.Args) {
				arg = r.Args[i]
			}
			switch {
			case arg.Kind == funcs.String && arg.Literal:
				args = append(args, `"ax"`)
			case arg.Kind == funcs.String:
				args = append(args, "comm")
			case arg.Kind == funcs.Integer:
				args = append(args, "1")
			default:
				args = append(args, some)
			}
		}
		list = append(list, r.Name+"("+strings.Join(args, ", ")+")")
	}
	return list
}

// accepted reports whether one of the calls is accepted at an attach point, and the type of its
// result.
func accepted(r *funcs.Row, provider string, unsafe bool) (result string, ok bool, said string) {
	for _, call := range calls(r) {
		src := fmt.Sprintf("struct sock { int a; } %s { %s; }", point(provider), call)
		p, err := check(src, &types.Options{Unsafe: unsafe, Arch: "amd64"})
		if err != nil {
			said += src + "\n" + syntax.ErrorText(err)
			continue
		}
		for n := range syntax.All(p.File) {
			if c, is := n.(*syntax.Call); is && c.Name == r.Name {
				return p.Type(c).String(), true, ""
			}
		}
	}
	return "", false, said
}

// TestRows: a function's row decides on its arguments, its result, its probes and whether it
// is safe, so that a new function needs a row and, at most, the code of what only it requires.
func TestRows(t *testing.T) {
	for _, r := range funcs.All() {
		if r.Result.Kind == "" || r.Most == 0 || r.Map || r.Name == "fail" ||
			r.Name == "percpu_kaddr" {
			continue // it depends on the map or the arguments, is an error, or needs a variable
		}
		t.Run(r.Name, func(t *testing.T) {
			in := "kprobe"
			if r.Probes != "" {
				in, _, _ = strings.Cut(r.Probes, " ")
			}
			result, ok, said := accepted(&r, in, true)
			want := r.Result.Kind
			if want == funcs.Integer {
				want = strings.TrimPrefix(fmt.Sprintf("uint%d", 8*r.Result.Size), map[bool]string{true: "u"}[r.Result.Signed])
			}
			if !ok || !strings.HasPrefix(result, want) {
				t.Fatalf("result is %q, want %s\n%s", result, want, said)
			}
			if _, ok, _ := accepted(&r, in, false); ok == r.Unsafe {
				t.Errorf("accepted in safe mode: %v", ok)
			}
			if _, ok, _ := accepted(&r, "begin", true); ok != (r.Probes == "") {
				t.Errorf("accepted in begin: %v", ok)
			}
			few, many := r, r
			few.Least, many.Least = r.Least-1, r.Most+1
			for _, wrong := range []*funcs.Row{&few, &many} {
				if wrong.Least < 0 || wrong.Least > 10 || wrong.Least == 0 && r.Bare {
					continue
				}
				_, ok, said := accepted(wrong, in, true)
				if ok || !strings.Contains(said, " argument") {
					t.Errorf("with %d arguments: accepted is %v\n%s", wrong.Least, ok, said)
				}
			}
		})
	}
}

// TestNewRow: a function that the language does not have is one row: its arguments, its result, its
// probes and that it is unsafe are checked by nothing else.
func TestNewRow(t *testing.T) {
	last := &funcs.All()[len(funcs.All())-1]
	was := *last
	t.Cleanup(func() { *last = was })
	r := funcs.Row{
		Name: "zzz", Since: "0.26", Least: 2, Most: 2, Unsafe: true, Probes: "kprobe",
		Args: []funcs.Arg{{Kind: funcs.Integer}, {Kind: funcs.String, Literal: true}}, Result: funcs.Int(4),
	}
	if result, ok, said := accepted(&r, "kprobe", true); ok || !strings.Contains(said, "zzz") {
		t.Errorf("without a row it is accepted: %v %s %s", ok, result, said)
	}
	*last = r
	if result, ok, said := accepted(&r, "kprobe", true); !ok || !strings.HasPrefix(result, "int32") {
		t.Errorf("with its row: %v, result %q\n%s", ok, result, said)
	}
	if _, ok, _ := accepted(&r, "kprobe", false); ok {
		t.Error("it is accepted in safe mode")
	}
	if _, ok, _ := accepted(&r, "begin", true); ok {
		t.Error("it is accepted in begin")
	}
	wrong := r
	wrong.Args = []funcs.Arg{{Kind: funcs.String}, {Kind: funcs.String, Literal: true}}
	if _, ok, _ := accepted(&wrong, "kprobe", true); ok {
		t.Error("it is accepted with a text in place of a number")
	}
}
