package tooltest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/cli"
)

// mainEnv is the environment variable with the arguments, in JSON, with which CommandLine
// runs the tool's main function.
const mainEnv = "TOOLTEST_MAIN"

// statusMark is printed before main's exit status.
const statusMark = "tooltest: status "

func runMain(t *testing.T, name string, run Run, args string) {
	var list []string
	if err := json.Unmarshal([]byte(args), &list); err != nil {
		t.Fatal(err)
	}
	os.Args = append([]string{name}, list...)
	status := tool.Main(name, run)
	os.Stdout.WriteString("\n" + statusMark + strconv.Itoa(status) + "\n")
}

// interruptEarly runs the tool as a separate program, and sends it one Ctrl-C when it has
// printed its start line. The tool must end with status 0 after that one, which it does only
// after its summary.
func interruptEarly(t *testing.T, args []string) {
	t.Helper()
	list, err := json.Marshal(slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		return a == "-json"
	}))
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.CommandContext(t.Context(), t, exe, "-test.run=^TestCommandLine$")
	cmd.Env = append(os.Environ(), mainEnv+"="+string(list))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	sent := false
	for lines := bufio.NewReader(out); !strings.Contains(text.String(), statusMark); {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		if err != nil {
			break
		}
		if !sent && strings.HasSuffix(line, "Hit Ctrl-C to end.\n") {
			sent = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	cmd.Process.Kill() // its own result as a test does not matter
	cmd.Wait()
	_, status, ended := strings.Cut(text.String(), statusMark)
	if (sent || ended) && strings.TrimSpace(status) != "0" {
		t.Errorf("%v, interrupted at the start line (%v), ended with status %q:\n%s%s", args, sent,
			status, &text, &stderr)
	}
}

// needsRoot runs the tool if the test does not run as root, and checks that it reports that
// it needs root.
func needsRoot(t *testing.T, name string, run Run, args []string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() == 0 {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // ends a run that needs no root
	var stderr bytes.Buffer
	err := run(ctx, args, tool.NewOutput(io.Discard))
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	status := cli.Status(name, err, &stderr)
	if line := stderr.String(); status != 1 || strings.Count(line, "\n") != 1 ||
		!strings.Contains(line, "root") {
		t.Errorf("%v without root: status %d, %q", args, status, line)
	}
}
