package system_test

import (
	"fmt"
	"testing/fstest"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/system"
)

// The machine is recorded. For a recording in a folder use os.DirFS; with nil options it is
// this machine.
func Example() {
	const format = `name: sched_wakeup
ID: 5
format:
	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:int prio;	offset:24;	size:4;	signed:1;
`
	files := fstest.MapFS{
		"sys/kernel/tracing/events/sched/sched_wakeup/format": {Data: []byte(format)},
	}
	s := system.New(probe.NewEnv(&probe.EnvOptions{Root: files, Release: "6.1.0"}), nil)

	c, err := script.Check("stdin", `tracepoint:sched:sched_w* { @[args.comm] = args.prio; }`,
		&script.Options{System: s})
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	fmt.Println(c.Types.Map("@"))
	// Output: string[16] int32
}
