package script_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/lifebuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/script"
)

// ofFunction are the rows of a map of stacks whose innermost frame is the program's.
var ofFunction = regexp.MustCompile(`(?m)^@\[\n +(\S+?)(?:\+\d+)?\n\]: (\d+)$`)

// TestLives: one number of a process and one address are several functions, of programs that execute each
// other, and of processes that have the number in turn. Each count has the name of the function that ran;
// where one file is mapped in the place of another, none has the name of what did not run. A replay prints
// the same.
func TestLives(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Perf, testenv.Arch("amd64"))
	for name, c := range map[string]struct {
		run  func(t *testing.T, dir string) error
		want map[string]int
		said string
	}{
		"executed": {
			run: func(t *testing.T, dir string) error {
				return testenv.Command(t, lifebuild.Executed(t, dir, "lives", 8)).Run()
			},
			want: map[string]int{lifebuild.First: 4 * lifebuild.FirstCalls, lifebuild.Second: 4 * lifebuild.SecondCalls},
		},
		"numbered": {
			run: func(t *testing.T, dir string) error {
				first, second := lifebuild.Single(t, dir, "lives")
				cmd := testenv.Command(t, first)
				err := cmd.Run()
				for _, path := range []string{second, first, second} {
					err = errors.Join(err, testenv.Command(t, lifebuild.Numbered(t, dir, cmd.Process.Pid, path)).Run())
				}
				return err
			},
			want: map[string]int{lifebuild.First: 2 * lifebuild.FirstCalls, lifebuild.Second: 2 * lifebuild.SecondCalls},
		},
		"mapped": {
			run: func(t *testing.T, dir string) error {
				return testenv.Command(t, lifebuild.Mapped(t, dir, "lives")).Run()
			},
			want: map[string]int{
				"third": lifebuild.ThirdCalls,
				fmt.Sprintf("%#x", lifebuild.Place+lifebuild.CallOffset): lifebuild.FirstCalls + lifebuild.SecondCalls,
			},
			said: "1 addresses have no names: their processes mapped one file and then another there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			const text = `tracepoint:syscalls:sys_enter_getppid /strncmp(comm, "lives", 5) == 0/ { @[ustack(1)] = count(); }`
			ctx, stop := context.WithCancel(t.Context())
			dir, to := t.TempDir(), filepath.Join(t.TempDir(), "recording")
			rec, err := recording.Create(to, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := script.MustCompile(t, text, &script.Options{})
			var out, said strings.Builder
			_, err = p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Record: rec, Attached: func() error {
				defer stop()
				return c.run(t, dir)
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, row := range ofFunction.FindAllStringSubmatch(out.String(), -1) {
				n, _ := strconv.Atoi(row[2])
				got[row[1]] += n
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v:\n%s%s", got, c.want, out.String(), said.String())
			}
			if !strings.Contains(said.String(), c.said) {
				t.Errorf("it said %s, want %s", said.String(), c.said)
			}
			if err := rec.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := recording.Open(os.DirFS(to))
			if err != nil {
				t.Fatal(err)
			}
			var replayed strings.Builder
			if _, err := p.Replay(again, &script.RunOptions{Stdout: &replayed}); err != nil || replayed.String() != out.String() {
				t.Errorf("%v: replayed it prints\n%s\nnot\n%s", err, replayed.String(), out.String())
			}
		})
	}
}
