package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing/fstest"

	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
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

// The results of a check are the types of a script's maps and expressions.
func Example() {
	const text = `import "lib/low.bt";
tracepoint:sched:sched_w* /low(args.prio)/ { @[args.comm] = hist(args.prio); }`
	lib := fstest.MapFS{"lib/low.bt": {Data: []byte("macro low(x) { x < 100 }")}}
	c, err := script.Check("wakeups.bt", text, &script.Options{
		System: machine(), Imports: []script.Dir{{Name: ".", FS: lib}},
	})
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	p := c.Types
	for _, name := range p.Maps() {
		key, value := p.Map(name)
		fmt.Println(name, "has", key, "and", value)
	}
	for n := range syntax.All(p.File) {
		if x, ok := n.(*syntax.Field); ok {
			line, column := x.In.Position(int(x.Start))
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
	const text = "kprobe:f {\n  $a = 1;\n  $a = \"one\";\n  print($b)\n}\nend { @ = }\n"
	c, err := script.Check("new.bt", text, nil)
	wrong, _ := errors.AsType[syntax.Errors](err)
	for _, e := range wrong {
		line, column := e.Loc.In.Position(int(e.Loc.Start))
		endLine, end := e.Loc.In.Position(int(e.Loc.End))
		fmt.Printf("%d:%d-%d:%d %s %s\n", line, column, endLine, end, e.Severity, e.Msg)
	}
	fmt.Println("read:", len(c.File.Decls), "probes")

	_, err = script.Check("new.bt", strings.TrimSuffix(text, "end { @ = }\n"), nil)
	fmt.Print(syntax.ErrorText(err))
	// Output:
	// 6:11-6:12 ERROR syntax: expected expression
	// read: 1 probes
	// new.bt:4:9-11: ERROR: Undefined or undeclared variable: $b
	//   print($b)
	//         ~~
}

// An editor shows the type of the smallest expression under the cursor.
func Example_hover() {
	c, err := script.Check("stdin", `begin { @sum = (uint8)3 + 1000; }`, nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	p := c.Types
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
		fmt.Print(syntax.ErrorText(err))
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
		fmt.Print(syntax.ErrorText(err))
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

// A script is compiled for a recorded machine, and prints what was recorded of it there: as a test of
// a script does, without privileges and on any system.
func ExampleProgram_Replay() {
	env := probe.NewEnv(&probe.EnvOptions{Release: "6.12.0", Arch: "amd64", Root: fstest.MapFS{
		"sys/kernel/tracing/events/raw_syscalls/sys_enter/format": {Data: []byte(`name: sys_enter
ID: 348
format:
	field:long id;	offset:8;	size:8;	signed:1;
	field:unsigned long args[6];	offset:16;	size:48;	signed:0;
`)},
	}})
	const text = `tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }`
	p, err := script.Compile("count.bt", text, &script.Options{Env: env})
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	rec, err := recording.Open(os.DirFS("testdata/count"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Close()
	if _, err := p.Replay(rec, &script.RunOptions{Stdout: os.Stdout}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// @[sleep]: 109
	// @[cat]: 116
	// @[script.test]: 127
}

// A service runs a script from a string: its lines arrive on a channel, and its maps are Go values.
func ExampleAttach() {
	p, err := script.Compile("execs", `
		tracepoint:sched:sched_process_exec { @execs[comm] = count(); printf("%s %d\n", comm, pid); }`, nil)
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	events := make(chan script.Event, 256)
	session, err := script.Attach(ctx, p, &script.AttachOptions{Events: events})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	execs, err := script.Map[string, uint64](session, "@execs")
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range events { // until ctx ends
		if e.Kind == "printf" {
			fmt.Println(e.Values[0], "as", e.Values[1])
		}
	}
	counts, err := execs.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range counts.Entries {
		fmt.Println(e.Key, e.Value)
	}
	if _, lost, err := session.Stats(); err == nil && lost > 0 {
		fmt.Println(lost, "events were lost")
	}
}
