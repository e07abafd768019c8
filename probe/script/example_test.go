package script_test

import (
	"errors"
	"fmt"
	"os"
	"testing/fstest"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/imports"
	"github.com/borescope/borescope/probe/script/library"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/system"
	"github.com/borescope/borescope/probe/script/types"
)

// machine is a recorded machine that has one tracepoint. With nil options probe.NewEnv
// describes this machine.
func machine() *system.System {
	return system.New(probe.NewEnv(&probe.EnvOptions{Release: "6.1.0", Root: fstest.MapFS{
		"sys/kernel/tracing/events/sched/sched_wakeup/format": {Data: []byte(`name: sched_wakeup
ID: 5
format:
	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:int prio;	offset:24;	size:4;	signed:1;
`)},
	}}), nil)
}

// check runs all steps. For a script with mistakes it returns the part that could be read.
func check(name, text string, sys *system.System) (*syntax.File, *types.Program, syntax.Errors) {
	f, err := syntax.Parse(name, []byte(text), nil)
	var said, more syntax.Errors
	var c *config.Config
	if err == nil {
		lib := fstest.MapFS{"lib/low.bt": {Data: []byte("macro low(x) { x < 100 }")}}
		said, err = imports.Load(f, &imports.Options{Dirs: []imports.Dir{{Name: ".", FS: lib}}})
	}
	if err == nil {
		c, more, err = config.Read(f, nil)
		said = append(said, more...)
	}
	if err == nil {
		err = syntax.Expand(f, &syntax.ExpandOptions{Library: library.Macros(), Builtin: types.Library})
	}
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err == nil {
		err = attach.Check(f, nil)
	}
	var p *types.Program
	if err == nil {
		err = sys.Expand(f, c)
	}
	if err == nil {
		p, err = types.Check(f, &types.Options{System: sys, Config: c})
	}
	if err == nil {
		return f, p, append(said, p.Warnings...)
	}
	wrong, _ := errors.AsType[syntax.Errors](err)
	return f, nil, append(said, wrong...)
}

// A script passes through all steps. The results are the types of its maps and expressions.
func Example() {
	const script = `import "lib/low.bt";
tracepoint:sched:sched_w* /low(args.prio)/ { @[args.comm] = hist(args.prio); }`
	_, p, said := check("wakeups.bt", script, machine())
	if p == nil {
		fmt.Print(said.String())
		return
	}
	for _, name := range p.Maps() {
		key, value := p.Map(name)
		fmt.Println(name, "has", key, "and", value)
	}
	for n := range syntax.All(p.File) {
		if x, ok := n.(*syntax.Field); ok {
			line, column := x.Source.Position(int(x.Start))
			fmt.Printf("%d:%d %s is %v\n", line, column, x.Name, p.Type(x))
		}
	}
	// Output:
	// @ has string[16] and hist_t
	// 2:32 prio is int32
	// 2:48 comm is string[16]
	// 2:66 prio is int32
}

// Errors have positions: an editor underlines the range of each.
func Example_diagnostics() {
	const script = "kprobe:f {\n  $a = 1;\n  $a = \"one\";\n  print($b)\n}\nend { @ = }\n"
	f, _, said := check("new.bt", script, machine())
	for _, e := range said {
		line, column := e.Loc.Source.Position(int(e.Loc.Start))
		endLine, end := e.Loc.Source.Position(int(e.Loc.End))
		fmt.Printf("%d:%d-%d:%d %s %s\n", line, column, endLine, end, e.Severity, e.Msg)
	}
	fmt.Println("read:", len(f.Decls), "probes")

	_, _, said = check("new.bt", script[:len(script)-len("end { @ = }\n")], machine())
	for _, e := range said {
		fmt.Print(e.String())
	}
	// Output:
	// 6:11-6:12 ERROR syntax: expected expression
	// read: 1 probes
	// new.bt:4:9-11: ERROR: Undefined or undeclared variable: $b
	//   print($b)
	//         ~~
}

// An editor shows the type of the smallest expression under the cursor.
func Example_hover() {
	const script = `begin { @sum = (uint8)3 + 1000; }`
	_, p, _ := check("stdin", script, machine())
	const cursor = 16 // at the bracket of the cast
	var found syntax.Expr
	for n := range syntax.All(p.File) {
		l := n.At()
		if x, ok := n.(syntax.Expr); ok && int(l.Start) <= cursor && cursor < int(l.End) &&
			p.Type(x).Kind != types.None {
			found = x // nodes come before those in them
		}
	}
	fmt.Printf("%T %v\n", found, p.Type(found))
	// Output: *syntax.Cast uint8
}

// A policy checks the tree before anything runs, here for the functions that a script calls.
func Example_policy() {
	f, err := syntax.Parse("stdin", []byte(`
kprobe:f { if (arg0 == 0) { system("id"); } @ = count(); }`), nil)
	if err != nil {
		fmt.Print(syntax.Text(err))
		return
	}
	for n := range syntax.All(f) {
		if c, ok := n.(*syntax.Call); ok && c.Name == "system" {
			e := &syntax.Error{Loc: c.Loc, Msg: "system is not for guests"}
			fmt.Print(e.String())
		}
	}
	// Output:
	// stdin:2:29-41: ERROR: system is not for guests
	// kprobe:f { if (arg0 == 0) { system("id"); } @ = count(); }
	//                             ~~~~~~~~~~~~
}

// Format keeps comments, and does not change a formatted script.
func Example_format() {
	f, err := syntax.Parse("stdin", []byte("k:f{@++// how often\n}"), nil)
	if err != nil {
		fmt.Print(syntax.Text(err))
		return
	}
	os.Stdout.Write(syntax.Format(f))
	// Output:
	// k:f
	// {
	//   // how often
	//   @++;
	// }
}
