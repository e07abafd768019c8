package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

// bt runs the command and returns what it printed.
func bt(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	if _, err := run(t.Context(), args, nil, cli.NewOutput(&out), cli.NewOutput(&said)); err != nil {
		t.Fatalf("%q: %v; it said %s", args, err, &said)
	}
	return out.String()
}

// TestRecord: a recorded run is printed again as it was, with the names and headers of this machine,
// or as JSON.
func TestRecord(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.BTF, testenv.Tool("sh"))
	dir := t.TempDir()
	script := filepath.Join(dir, "a.bt")
	for name, text := range map[string]string{
		script:           `begin { printf("%d %s %s\n", sizeof(struct one), str($1), getopt("n", "no")); }`,
		dir + "/h/one.h": "struct one { long a, b; };",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const kills = "sh -c 'kill -0 $$; kill -0 $$'"
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"headers", []string{"-I", dir + "/h", "-include", "one.h", script, "word", "--", "--n=yes"}, "16 word yes\n"},
		{"kernel's types", []string{"-e", `begin { print(sizeof(struct list_head)); print(curtask->pid != 0); }`}, "16\ntrue\n"},
		{"events", []string{"-c", kills, "-e", `tracepoint:syscalls:sys_enter_kill /pid == cpid/ { printf("%s %s\n", comm, username); @[args.sig] = count(); }`}, "sh root\nsh root\n\n\n@[0]: 2\n"},
		{
			"symbols",
			[]string{"-c", "sh -c 'kill -0 $$; kill -0 $$; sleep 0.3'", "-e", `tracepoint:syscalls:sys_enter_kill /pid == cpid/ { @[kstack(1)] = count(); @u[ustack(1)] = count(); }`},
			"]: 2\n",
		},
		{"filter and variables", []string{"-probe-filter", "begin", "-e", `config = { max_map_keys = 3 } begin { @ = 1; } interval:s:9 { @ = 2; }`}, "@: 1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := filepath.Join(t.TempDir(), "rec")
			live := bt(t, append([]string{"-q", "-record", rec}, c.args...)...)
			if !strings.Contains(live, c.want) || strings.Contains(live, "0x") {
				t.Errorf("printed\n%swant %s", live, c.want)
			}
			if again := bt(t, "-replay", rec); again != live {
				t.Errorf("printed\n%s\nand in the replay\n%s", live, again)
			}
			if again := bt(t, "-replay", rec, "-f", "json"); !strings.HasPrefix(again, `{"type": `) {
				t.Errorf("in JSON the replay is\n%s", again)
			}
		})
	}
}

var update = flag.Bool("update", false, "record testdata/demo again")

// TestRecordDemo records the demo.
func TestRecordDemo(t *testing.T) {
	if !*update {
		return
	}
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Tool("cat"))
	if err := os.RemoveAll("testdata/demo"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LC_ALL", "C") // it opens fewer files
	printed := bt(t, "-q", "-record", "testdata/demo", "-c", "cat /etc/hostname", "-e", `// The files that a command opens, and how long that takes.
tracepoint:syscalls:sys_enter_openat /pid == cpid/
{
  @file[tid] = str(args.filename);
  @start[tid] = (int64)nsecs;
}

tracepoint:syscalls:sys_exit_openat /@start[tid]/
{
  printf("%-6s %-44s %d\n", comm, @file[tid], args.ret);
  @ns = hist((int64)nsecs - @start[tid]);
  delete(@start, tid);
  delete(@file, tid);
}
`)
	if err := os.WriteFile("testdata/demo.txt", []byte(printed), 0o644); err != nil {
		t.Fatal(err)
	}
}
