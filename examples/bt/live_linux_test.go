package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

// TestLive: the line of the README, and scripts that count what a command does.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.File("/bin/sh"))
	const signals = "sh -c 'kill -0 $$; kill -0 $$; kill -0 $$'"
	for _, c := range []struct {
		name   string
		args   []string
		out    string
		said   string
		status int
	}{
		{
			"README",
			[]string{"-c", "true", "-e", "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }"},
			"@[true]: ", "Attached 1 probe\n", 0,
		},
		{
			"command",
			[]string{"-c", signals, "-e", `tracepoint:syscalls:sys_enter_kill /comm == "sh"/ { @[args.sig] = count(); }`},
			"@[0]: 3\n", "Attached 1 probe\n", 0,
		},
		{
			"json",
			[]string{"-f", "json", "-c", signals, "-e", `tracepoint:syscalls:sys_enter_kill /comm == "sh"/ { @[args.sig] = count(); }`},
			`{"type": "attached_probes", "count": 1, "data": {"probes": 1}}` + "\n" +
				`{"type": "map", "data": {"@": {"0": 3}}}` + "\n", "", 0,
		},
		{ // the last moment of a short life, in libraries without frame pointers
			"stack of a command",
			[]string{"-c", "true", "-e", "tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { @[ustack] = count(); }"},
			"\n]: 1\n", "100.0 % of 1 user stacks are whole; 0 were taken before the files of their process were read, 0 end too early\n", 0,
		},
		{
			"no such command",
			[]string{"-q", "-c", "/no/such/command", "-e", "tracepoint:syscalls:sys_enter_mkdirat /pid == cpid/ { @[ustack] = count(); }"},
			"", "", 0,
		},
		{"exit", []string{"-q", "-e", `begin { printf("%s %d\n", str($1), getopt("n", 1)); exit(3); }`, "text", "--", "--n=7"}, "text 7\n", "", 3},
		{
			"join",
			[]string{"-c", "sh -c 'exec echo one two'", "-e", `tracepoint:syscalls:sys_enter_execve /comm == "sh"/ { join(args.argv); join(args.argv, "+"); }`},
			"echo one two\necho+one+two\n", "Attached 1 probe\n", 0,
		},
		{"list", []string{"-l", "-v", "tracepoint:syscalls:sys_enter_mkdirat"}, "tracepoint:syscalls:sys_enter_mkdirat\n    int __syscall_nr\n    int dfd\n", "", 0},
		{"list of letters", []string{"-lv", "tracepoint:syscalls:sys_enter_mkdirat"}, "tracepoint:syscalls:sys_enter_mkdirat\n    int __syscall_nr\n    int dfd\n", "", 0},
		{"list of a process", []string{"--list", "uprobe:*bt.run", "--pid", strconv.Itoa(os.Getpid())}, "/bt.run\n", "", 0},
		{"list of a process's all", []string{"-l", "*bt.run", "-p", strconv.Itoa(os.Getpid())}, "/bt.run\n", "", 0},
		{"flags behind", []string{"-e", `begin { printf("%s%d", str($1), $2); exit() }`, "-q", "a", "-B", "full", "7"}, "a7", "", 0},
		{"filter", []string{"-q", "--probe-filter", "ms:[23]", "-e", `begin { printf("b"); } interval:ms:1 { printf("1"); } interval:ms:2 { printf("2"); exit(); } end { printf("e"); }`}, "b2e", "", 0},
		{"no warnings", []string{"-q", "--no-warnings", "-e", `begin { 1; warnf("no"); errorf("yes"); }`}, "", "yes", 0},
		{"list of types", []string{"-lv", "struct list_head,tracepoint:syscalls:sys_enter_mkdirat"}, "struct list_head {\n\tstruct list_head *next;\n\tstruct list_head *prev;\n}\ntracepoint:syscalls:sys_enter_mkdirat\n", "", 0},
		{"list of all kinds", []string{"-l", "sys_enter_mkdirat"}, "tracepoint:syscalls:sys_enter_mkdirat\n", "", 0},
		{"list of units", []string{"-l", "-e", "interval:us:1000, interval:s:1, i:ms:2000 { }"}, "interval:us:\ninterval:s:\ninterval:ms:\n", "", 0},
		{"list of a script", []string{"-l", "-e", "interval:s:1 { @[ustack] = count(); } begin { }"}, "interval:s:\nbegin\n", "", 0},
		{"dry run", []string{"-q", "-dry-run", "-e", `interval:s:1 { } end { printf("ended"); }`}, "", "", 0},
		{"loss", []string{"-q", "-e", "config = { max_map_keys = 1 } begin { @[1] = 1; @[2] = 2; }"}, "@[1]: 1\n", "Map full; can't update element (1 times)", 0},
		{"strict", []string{"-q", "-strict", "-e", "begin { @ = 1; exit(5); }"}, "@: 1\n", "", 5},
		{"strict with loss", []string{"-q", "-strict", "-e", "config = { max_map_keys = 1 } begin { @[1] = 1; @[2] = 2; exit(5); }"}, "@[1]: 1\n", "Map full; can't update element (1 times)", 3},
		{
			"strict in JSON",
			[]string{"-f", "json", "-strict", "-e", "config = { max_map_keys = 1 } begin { @[1] = 1; @[2] = 2; }"},
			`{"type": "losses", "data": {"full": 1}}` + "\n", "", 3,
		},
		{"strict with no command", []string{"-q", "-strict", "-e", `begin { cat("/no/such/file"); }`}, "", "failed to open file", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, said bytes.Buffer
			status, err := run(t.Context(), c.args, nil, cli.NewOutput(&out), cli.NewOutput(&said))
			if err != nil {
				t.Fatal(err, said.String())
			}
			if status != c.status || !strings.Contains(out.String(), c.out) || !strings.Contains(said.String(), c.said) ||
				c.said == "" && said.Len() > 0 {
				t.Errorf("status %d, printed\n%s%s\nwant %d,\n%s%s", status, &out, &said, c.status, c.out, c.said)
			}
		})
	}
}

// TestProcess: -p has the events of one process, and ends with it.
func TestProcess(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Tool("sleep"))
	cmd := testenv.Command(t, "sleep", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var out, said bytes.Buffer
	pid := strconv.Itoa(cmd.Process.Pid)
	text := `tracepoint:syscalls:sys_enter_exit_group { @[pid] = count(); } tracepoint:raw_syscalls:sys_enter /pid != ` + pid + `/ { @others = count(); }`
	status, err := run(t.Context(), []string{"-q", "-p", pid, "-e", text}, nil, cli.NewOutput(&out), cli.NewOutput(&said))
	if want := "\n\n@[" + pid + "]: 1\n"; status != 0 || err != nil || out.String() != want || said.Len() > 0 {
		t.Errorf("status %d, %v; it printed %q and said %q, want %q", status, err, &out, &said, want)
	}
}
