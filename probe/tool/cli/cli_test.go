package cli

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestParseAndStatus(t *testing.T) {
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"-n 3 rest", 0, "", ""},
		{"-h", 0, "Usage of prog:\n  -n number\n    \ta number\n", ""},
		{"-n 3 --help", 0, "Usage of prog:\n  -n number\n    \ta number\n", ""},
		{"-no", 2, "", "prog: flag provided but not defined: -no (prog -h lists the flags)\n"},
	} {
		fs := flag.NewFlagSet("prog", flag.ContinueOnError)
		fs.Int("n", 0, "a `number`")
		var stdout, stderr bytes.Buffer
		status := Status("prog", Parse(fs, strings.Fields(c.args), NewOutput(&stdout)), &stderr)
		if status != c.status || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: status %d, stdout %q, stderr %q", c.args, status, stdout.String(), stderr.String())
		}
	}
}

func TestStatus(t *testing.T) {
	var stderr bytes.Buffer
	if status := Status("prog", errors.New("no such file"), &stderr); status != 1 || stderr.String() != "prog: no such file\n" {
		t.Errorf("status %d, %q", status, stderr.String())
	}
}
