package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/cdecl"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// typed checks a snippet on the suite's kernel.
func typed(sn snippet) (*types.Script, error) {
	c, err := script.Check("stdin", sn.src, &script.Options{
		System: &suiteKernel{sn.kernel.decls, sn.kernel.names, sn.oldKernel}, Unsafe: sn.unsafe, Params: sn.params, Arch: "amd64",
		Environ: allFeatures,
	})
	if err == nil && len(c.Warnings) > 0 {
		err = warned{c.Warnings}
	}
	return c.Types, err
}

// allFeatures is an environment in which unstable features are enabled, as the suite's tests of
// types have it.
func allFeatures(name string) (string, bool) {
	return "enable", strings.HasPrefix(name, "BPFTRACE_UNSTABLE_")
}

// warned is the error of a script that is accepted with warnings.
type warned struct{ syntax.Errors }

// suiteKernel is the suite's own kernel: the types, functions and variables of a file in C.
type suiteKernel struct {
	decls *cdecl.Decls
	names map[string]btf.Type // of functions and variables
	old   bool
}

var (
	attribute = regexp.MustCompile(`__attribute__\(\((?:[^()]|\([^()]*\))*\)\)`)
	remark    = regexp.MustCompile(`//.*`)
	named     = regexp.MustCompile(`(?s)(\w+)(?:\s*\(.*|\[.*)?$`)
	defined   = regexp.MustCompile(`(?s)^(struct|union|enum) \w+ \{.*\}$|^typedef `)
)

// readKernel reads the suite's kernel. The bodies of functions are dropped; a function or a
// variable becomes a typedef of its name, from which its type is known.
func readKernel(file string) (*suiteKernel, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	names := map[string]btf.Type{}
	for _, d := range declarations(attribute.ReplaceAllString(remark.ReplaceAllString(string(b), ""), "")) {
		if !defined.MatchString(d) {
			m := named.FindStringSubmatch(d)
			if m == nil {
				return nil, fmt.Errorf("%s: %q declares nothing", file, d)
			}
			names[m[1]] = nil
			d = "typedef " + d
		}
		text.WriteString(d + ";\n")
	}
	decls, err := cdecl.Parse(file, []byte(text.String()), &cdecl.Options{Arch: "amd64"})
	if err != nil {
		return nil, err
	}
	for _, t := range decls.Types {
		if td, ok := t.Type.(*btf.Typedef); ok && t.Kind == cdecl.Typedef {
			if _, made := names[t.Name]; made {
				names[t.Name] = td.Type
			}
		}
	}
	return &suiteKernel{decls: decls, names: names}, nil
}

// declarations splits a file in C into its declarations, without the bodies of functions.
func declarations(text string) (list []string) {
	depth, body := 0, false
	var b strings.Builder
	end := func() {
		if d := strings.TrimSpace(b.String()); d != "" {
			list = append(list, d)
		}
		b.Reset()
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '{':
			if depth == 0 {
				body = strings.HasSuffix(strings.TrimSpace(b.String()), ")")
			}
			depth++
		case c == '}':
			if depth--; depth == 0 && body {
				body = false
				end()
				continue
			}
		case c == ';' && depth == 0:
			end()
			continue
		}
		if !body {
			b.WriteByte(text[i])
		}
	}
	return list
}

func (k *suiteKernel) Type(name string) btf.Type {
	for _, t := range k.decls.Types {
		full := t.Name
		if t.Kind != cdecl.Typedef {
			full = t.Kind.String() + " " + t.Name
		}
		if _, made := k.names[name]; full == name && !made {
			return t.Type
		}
	}
	return basic[name]
}

// basic are C's types, and those that every kernel defines.
var basic = map[string]btf.Type{
	"char":               &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed},
	"unsigned char":      &btf.Int{Name: "unsigned char", Size: 1},
	"short":              &btf.Int{Name: "short", Size: 2, Encoding: btf.Signed},
	"unsigned short":     &btf.Int{Name: "unsigned short", Size: 2},
	"int":                &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
	"unsigned int":       &btf.Int{Name: "unsigned int", Size: 4},
	"long":               &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed},
	"unsigned long":      &btf.Int{Name: "unsigned long", Size: 8},
	"long long":          &btf.Int{Name: "long long", Size: 8, Encoding: btf.Signed},
	"unsigned long long": &btf.Int{Name: "unsigned long long", Size: 8},
}

func (k *suiteKernel) TypeIn(*syntax.AttachPoint, string) btf.Type { return nil }

func (k *suiteKernel) Enumerator(name string) (*btf.Enum, uint64) {
	e, ok := k.Type("enum FooEnum").(*btf.Enum)
	if !ok || name != "VALUE" {
		return nil, 0
	}
	return e, 0
}

// Args returns the parameters of the function of an attach point, or the fields of the events
// that the suite's tests make in code.
func (k *suiteKernel) Args(a *syntax.AttachPoint) *btf.Struct {
	list := &btf.Struct{Name: a.Provider + "_args"}
	add := func(name string, t btf.Type) {
		list.Members = append(list.Members, btf.Member{Name: name, Type: t, Offset: btf.Bits(list.Size * 8)})
		list.Size += 8
	}
	if a.Func == "sched_one" {
		add("common_field", basic["unsigned long"])
		return list
	}
	name, skipped := a.Func, 0
	if a.Provider == "rawtracepoint" {
		name, skipped = "__probestub_"+name, 1 // the context
	}
	f, ok := k.names[name].(*btf.FuncProto)
	if !ok {
		return nil
	}
	for _, p := range f.Params[skipped:] {
		add(p.Name, p.Type)
	}
	if _, void := btf.UnderlyingType(f.Return).(*btf.Void); a.Provider == "fexit" && !void {
		add("$retval", f.Return)
	}
	return list
}

func (k *suiteKernel) Func(name string) *btf.Func {
	proto := k.prototype(name)
	if proto == nil {
		return nil
	}
	return &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}
}

// prototype returns the type of a function that snippets call: one of the file, or of those
// that the tests of calls make in code.
func (k *suiteKernel) prototype(name string) *btf.FuncProto {
	number := func(size uint32) btf.Type {
		return &btf.Int{Name: "int", Size: size, Encoding: btf.Signed}
	}
	switch name {
	case "foo":
		return &btf.FuncProto{Return: number(4), Params: []btf.FuncParam{
			{Name: "a", Type: number(4)}, {Name: "b", Type: number(8)},
		}}
	case "bar":
		return &btf.FuncProto{Return: number(8), Params: []btf.FuncParam{
			{Name: "a", Type: number(8)},
		}}
	case "bpf_map_sum_elem_count":
		f, _ := k.names[name].(*btf.FuncProto)
		return f
	}
	return nil
}

func (k *suiteKernel) Variable(name string) btf.Type { return k.names[name] }

func (k *suiteKernel) Has(string) bool { return !k.old }
