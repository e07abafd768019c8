package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/spec"
)

// parse parses a probe, with printf's values if a quote follows the target.
func parse(text string) (*spec.Probe, error) {
	_, rest, _ := strings.Cut(text, " ")
	o := &spec.Options{Printf: strings.HasPrefix(rest, `"`)}
	list, err := spec.Parse(tool.New("test", ""), []string{text}, o)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// TestMistakes: an error has the column of the mistake in what the user wrote, and says what is written instead
// of what expressions had before.
func TestMistakes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, testenv.Tracefs)
	const mkdir = "t:syscalls:sys_enter_mkdir"
	for in, want := range map[string]string{
		mkdir + " /args.mode = 1/":             ": column 39: syntax: expected ')': write == to compare",
		mkdir + " /args.mode ==/ comm":         ": column 41: syntax: expected expression",
		mkdir + " /args.moda/":                 ": column 29: Struct/union of type 'struct tracepoint_args' does not contain a field named 'moda'",
		mkdir + " args.mode, nothing":          ": column 39: Unknown identifier: 'nothing'",
		mkdir + ` contains(comm, "x")`:         `: write strcontains(text, "part")`,
		mkdir + ` prefix(comm, "x")`:           `: write strncmp(text, "start", 5) == 0`,
		mkdir + " len(comm)":                   ": write strlen(text)",
		mkdir + " ustr(args.pathname)":         ": write str(uptr(address), length)",
		mkdir + " str(args.pathname, 1, 2)":    ": write str(address, length)",
		mkdir + " compat":                      ": write curtask->thread_info.status & 2 on amd64",
		"vfs_read args.count":                  ": column 10: The args builtin can only be used with",
		"vfs_read retval":                      ": column 10: The retval builtin can only",
		"kr:vfs_read /retval < 0/":             ": column 14: retval is an unsigned number: it is never below 0; (int64)retval",
		"kr:vfs_read /retval > 20000/":         ": column 14: retval is an unsigned number: a negative one is above all others; (int64)retval",
		"kr:vfs_read /retval == -2/":           "column 14: retval is an unsigned number: it is never below 0",
		"k:vfs_read /-100 != arg0/":            "column 21: arg0 is an unsigned number: it is never below 0; (int64)arg0, or (int32)arg0 of an int",
		"kr:vfs_read /1 >= retval/":            ": column 19: retval is an unsigned number",
		mkdir + " @x":                          ": column 28: Undefined map: @x",
		mkdir + " @[args.mode]++":              "an expression has no maps",
		mkdir + " 1)); print((2":               ": column 28: an expression computes a value and does nothing else",
		mkdir + " kstack":                      "column 28: kstack is a value of type kstack_bpftrace_127: values are numbers and texts; bt prints others",
		mkdir + " comm(pid), args.mode":        "",
		mkdir + ` "%s", args.pathname`:         `: column 34: args.pathname is a number, and %s is for texts: str() reads the text at an address`,
		mkdir + ` "%d", comm`:                  "unsupported format specifier for type 'string[16]': d",
		mkdir + ` "%d"`:                        "not enough arguments for format string (0 supplied, 1 expected)",
		mkdir + ` "x", args.mode`:              "too many arguments for format string (1 supplied, 0 expected)",
		"t:syscalls:sys_enter_mkdri args.mode": "sys_enter_mkdir",
	} {
		p, err := parse(in)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", in, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v\nwant … %s …", in, p, err, want)
		}
	}
}

// TestValues: how values are kept, and printed.
func TestValues(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, testenv.Tracefs)
	for in, want := range map[string]string{
		"args.mode":                            "integer 3",
		"(int32)args.mode":                     "integer 3",
		"-1 * (int64)args.mode":                "integer 3",
		"args.pathname":                        "pointer 0x3",
		"args.mode == 1":                       "bool true",
		"strerror(args.mode)":                  "integer No such process",
		"(enum pid_type)args.mode":             "integer PIDTYPE_SID",
		"comm":                                 "text abc",
		"str(args.pathname)":                   "text abc",
		"str(args.pathname, 3)":                "text abc",
		`args.mode == 1 ? "yes" : "no"`:        "text abc",
		"((struct task_struct *)curtask)->pid": "integer 3",
	} {
		p, err := parse("t:syscalls:sys_enter_mkdir " + in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		v := p.Values[0]
		got := fmt.Sprint(v.Kind, " ", v.Number(3))
		if v.IsText() {
			got = v.Kind + " " + v.String([]byte("abc\x00"))
		}
		if got != want || v.Text != in || len(p.Actions) != 1 || len(p.Actions[0].Values) != 1 {
			t.Errorf("%s is %s: %+v, want %s", in, got, v, want)
		}
	}
}

// TestPattern: a pattern has an action for each match at which something else is done, and else one for all.
func TestPattern(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	for in, want := range map[string]int{
		"t:syscalls:sys_enter_mkdir* args.mode": 1, "t:syscalls:sys_enter_mkdir* probe": 2,
		"t:syscalls:sys_enter_mkdir*,profile:hz:9 comm": 2, "kr:vfs_* retval": 1,
	} {
		if p, err := parse(in); err != nil || len(p.Actions) != want || len(p.Values) != 1 {
			t.Errorf("%s: %+v, %v, want %d actions", in, p, err, want)
		}
	}
	_, err := parse("t:syscalls:sys_*_rename args.__syscall_nr, args.ret")
	if err == nil || !strings.Contains(err.Error(), "'ret'") {
		t.Errorf("a field that one event lacks: %v", err)
	}
}

// TestOtherKinds: targets that scripts lack have their arguments, too.
func TestOtherKinds(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	for in, want := range map[string]string{
		"lsm:file_open args.file->f_flags":              "lsm:file_open",
		"fmod_ret:security_file_open args.file, retval": "fmod_ret:security_file_open",
		"perf:cycles:period:1000 pid":                   "hardware:cycles:1000",
	} {
		p, err := parse(in)
		if err != nil || len(p.Actions) != 1 || p.Actions[0].Target.String() != want {
			t.Errorf("%s: %+v, %v", in, p, err)
		}
	}
	_, err := parse("lsm:file_open args.fil")
	if err == nil || !strings.Contains(err.Error(), ": column 15: Can't find function parameter fil") {
		t.Errorf("an argument that a hook lacks: %v", err)
	}
}

func Example() {
	t := tool.New("example", "Print when a process that is not the first one ends.")
	probes, err := spec.Parse(t, []string{`end /pid != 1/ "%s %d", comm, 2 + pid % 2`}, &spec.Options{Printf: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	program := action.NewProgram("example")
	for _, a := range probes[0].Actions {
		program.On(a.Target, func(c *action.Ctx) {
			a.Run(c) // and whatever the tool does with a.Values
		})
	}
	for _, v := range probes[0].Values {
		fmt.Println(v.Text, v.Kind)
	}
	fmt.Println(probes[0].Message([]any{"init", int64(3)}))
	_, err = spec.Parse(t, []string{"end /pid = 1/"}, nil)
	fmt.Println(err)
	// Output:
	// comm text
	// 2 + pid % 2 integer
	// init 3
	// "end /pid = 1/": column 10: syntax: expected ')': write == to compare (example -h lists the flags)
}
