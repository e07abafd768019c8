package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

// TestTour runs the commands of README's tour. They print what is shown there, but for numbers and the
// bars of histograms; "..." stands for any lines. What goes to standard error is shown before the
// rest, as a terminal has it.
func TestTour(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Tool("cat"))
	testenv.Need(t, testenv.File("README.md")) // guests have the tests alone
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```console\n\\$ (.*?)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(shown) < 7 {
		t.Errorf("the tour has %d commands", len(shown))
	}
	t.Chdir(t.TempDir())
	for _, s := range shown {
		t.Run(s[1], func(t *testing.T) {
			command, status := strings.CutSuffix(s[1], "; echo $?")
			args := words(command)
			for args[0] != "bt" {
				args = args[1:]
			}
			var out, said bytes.Buffer
			code, err := run(t.Context(), args[1:], nil, cli.NewOutput(&out), cli.NewOutput(&said))
			if err != nil && !status {
				t.Fatal(err, said.String())
			}
			if err != nil {
				code = 1 // as main has it
			}
			want, wantCode := s[2], "0"
			if status {
				at := strings.LastIndex(strings.TrimSuffix(want, "\n"), "\n") + 1
				want, wantCode = want[:at], strings.TrimSuffix(want[at:], "\n")
			}
			if strconv.Itoa(code) != wantCode {
				t.Errorf("the status is %d, and README shows %s", code, wantCode)
			}
			got := strings.TrimRight(said.String()+out.String(), "\n") + "\n"
			if !likeShown(want).MatchString(got) {
				t.Errorf("it printed\n%s\nand README shows\n%s", got, want)
			}
		})
	}
}

// words returns the words of a command; quotes are around whole words.
func words(command string) (list []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(command, -1) {
		list = append(list, m[1]+m[2])
	}
	return list
}

// likeShown returns what matches output like that which is shown.
func likeShown(shown string) *regexp.Regexp {
	var b strings.Builder
	for line := range strings.Lines(shown) {
		if line == "...\n" {
			b.WriteString("(?:.*\n)*?")
			continue
		}
		line = regexp.QuoteMeta(line)
		line = regexp.MustCompile(`\\\|[@ ]+\\\|`).ReplaceAllString(line, `\|[@ ]+\|`)
		line = regexp.MustCompile(`[0-9]+K?`).ReplaceAllString(line, "[0-9]+[KM]?")
		b.WriteString(regexp.MustCompile(` {2,}`).ReplaceAllString(line, " +"))
	}
	return regexp.MustCompile("^" + b.String() + "$")
}
