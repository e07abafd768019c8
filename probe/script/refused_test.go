package script_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/script"
)

// TestNamesAreNumbers: the name of a number is a number in the kernel. It is refused, at its place,
// where that would need its text: the error was of a stage that no script's author knows.
func TestNamesAreNumbers(t *testing.T) {
	const beside, not = "the name of a number beside other text", " is not supported in programs yet\n"
	for text, want := range map[string]string{
		`begin { print(pid ? "x" : signal_name(3)); }`:                   "stdin:1:15-41: ERROR: " + beside + not,
		`begin { print(strerror(2) == "x"); }`:                           "stdin:1:15-33: ERROR: " + beside + not,
		`begin { print(strerror(2) == signal_name(2)); }`:                "stdin:1:15-44: ERROR: " + beside + not,
		`begin { print(strlen(signal_name(9))); }`:                       "stdin:1:15-37: ERROR: strlen() of the name of a number" + not,
		`begin { print(pid ? strerror(1) : strerror(2)); }`:              "",
		`begin { @ = strerror(pid); print(@ == strerror((int64)pid)); }`: "",
	} {
		_, err := script.Compile("stdin", text, &script.Options{Env: probetest.Env(t)})
		got := ""
		if said := script.Refusal(err); said != nil {
			got = said.String()
		}
		if first, _, _ := strings.Cut(got, "begin {"); first != want {
			t.Errorf("%s: %v\n%swant\n%s", text, err, got, want)
		}
	}
}

// TestRefusal: probes that cannot be where a script has them are said as bpftrace says it, with the
// cause behind it. Before, only the cause was said.
func TestRefusal(t *testing.T) {
	const (
		missing = ". If this is expected, set the 'missing_probes' config variable to 'warn'.\nHINT: "
		unsafe  = "\nUse --unsafe to force attachment. WARNING: This option could lead to data corruption in the target process.\n"
	)
	for _, c := range []struct {
		script string
		unsafe bool
		want   string
	}{
		{
			`uprobe:/bin/target:add+1000000 { }`, false, "ERROR: Offset outside the function bounds ('add' size is 26)\n" +
				"ERROR: Unable to attach probe: uprobe:/bin/target:add+1000000" + missing + "offset 1000000 lies beyond add, which has 26 bytes\n",
		},
		{
			`uprobe:/bin/target:10 { }`, false, "ERROR: Could not resolve address: /bin/target:0xa\n" +
				"ERROR: Unable to attach probe: uprobe:/bin/target:0xa" + missing + "address 0xa is not in a loaded segment of /bin/target",
		},
		{
			`uprobe:/bin/target:add+2 { }`, false, "ERROR: Could not add uprobe into middle of instruction: /bin/target:add+2" + unsafe +
				"ERROR: Unable to attach probe: uprobe:/bin/target:add+2" + missing + "offset 2 lies within the instruction of ",
		},
		{
			`kprobe:0x12345678 { }`, true, "ERROR: Unable to attach probe: kprobe:305419896" + missing +
				"address 0x12345678 is not in the kernel's half of the address space\n",
		},
		{
			`begin { @ = kaddr("no_such_symbol"); }`, false, "stdin:1:13-36: ERROR: Failed to resolve kernel symbol: no_such_symbol\n" +
				"begin { @ = kaddr(\"no_such_symbol\"); }\n            ~~~~~~~~~~~~~~~~~~~~~~~\nHINT: no kernel symbol no_such_symbol",
		},
	} {
		_, err := script.Compile("stdin", c.script, &script.Options{Env: probetest.Env(t), Unsafe: c.unsafe})
		got := script.Refusal(err).String()
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.script, err, got, c.want)
		}
	}
	middle := &probe.TargetError{Op: "attach", Target: probe.Kprobe{Symbol: "f", Offset: 1}, Err: syscall.EILSEQ}
	const want = "ERROR: Possible attachment attempt in the middle of an instruction, try a different offset.\n" +
		"ERROR: Unable to attach probe: kprobe:f+1" + missing + "invalid or incomplete multibyte or wide character\n"
	if got := script.Refusal(middle).String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, err := range []error{
		nil, syscall.EIO, &probe.TargetError{Op: "resolve", Target: probe.Begin{}, Err: &probe.UnsupportedError{Feature: "x"}},
		&probe.TargetError{Op: "attach", Target: probe.Begin{}, Err: syscall.EPERM},
	} {
		if said := script.Refusal(err); said != nil {
			t.Errorf("%v is said as\n%s", err, said)
		}
	}
}

// TestRefusedPath: path() where the kernel does not have it is the script's error, with its place.
func TestRefusedPath(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	env := probe.NewEnv(&probe.EnvOptions{Features: probetest.Features(), Release: "6.12.0"})
	const text = `fentry:vfs_read { print("a"); print(path(args.file.f_path)); }`
	want := "stdin:1:37-59: ERROR: helper bpf_d_path not allowed in probe\n" + text + "\n" +
		strings.Repeat(" ", 36) + strings.Repeat("~", 22) + "\nHINT: in fentry:vfs_read the kernel does not permit bpf_d_path: "
	_, err := script.Compile("stdin", text, &script.Options{Env: env})
	if absent := "not available for your kernel version"; err != nil && strings.Contains(err.Error(), absent) {
		testenv.Need(t, testenv.Got("bpf_d_path among the kernel's types", err, absent))
	}
	if got := script.Refusal(err).String(); !strings.HasPrefix(got, want) {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
