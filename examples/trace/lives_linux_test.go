package main

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/lifebuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool"
)

// TestLives: user stacks have the names of what the process ran at the time of the event, and had mapped
// then: the names of what it ran or mapped last were given to all of them.
func TestLives(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, testenv.Tracefs, testenv.Perf, testenv.Arch("amd64"))
	dir := t.TempDir()
	for path, want := range map[string]map[string]int{
		lifebuild.Executed(t, dir, "lives", 8): {
			lifebuild.First: 4 * lifebuild.FirstCalls, lifebuild.Second: 4 * lifebuild.SecondCalls,
		},
		lifebuild.Mapped(t, dir, "livesmapped"): {
			lifebuild.First: lifebuild.FirstCalls, lifebuild.Second: lifebuild.SecondCalls, "third": lifebuild.ThirdCalls,
		},
	} {
		rec := filepath.Join(t.TempDir(), "recording")
		args := []string{"-U", "-d", "500ms", "-record", rec, `t:syscalls:sys_enter_getppid /strncmp(comm, "lives", 5) == 0/`}
		var out strings.Builder
		ctx := tool.OnStart(t.Context(), func() {
			if err := testenv.Command(t, path).Run(); err != nil {
				t.Error(err)
			}
		})
		if err := run(ctx, args, tool.NewOutput(&out)); err != nil {
			t.Fatal(err)
		}
		for what, out := range map[string]string{"live": out.String(), "replayed": replayed(t, rec)} {
			got := map[string]int{}
			events := strings.Split(out, " sys_enter_getppid")
			for _, event := range events[1:] {
				_, stack, _ := strings.Cut(event, "\n")
				name, _, _ := strings.Cut(strings.TrimSpace(stack), "\n")
				got[name]++
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v: %s", path, what, got, want, events[len(events)-1])
			}
		}
	}
}

func replayed(t *testing.T, rec string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), []string{"-U", "-replay", rec}, tool.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
