package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testlog"
)

// TestEvents feeds what go test -json prints for a failed test and a package
// that does not build.
func TestEvents(t *testing.T) {
	const stream = `{"Action":"start","Package":"github.com/borescope/borescope/mapx"}
{"Action":"output","Package":"github.com/borescope/borescope/mapx","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"github.com/borescope/borescope/mapx","Test":"TestA","Output":"    a_test.go:1: wrong\n"}
{"Action":"output","Package":"github.com/borescope/borescope/mapx","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"github.com/borescope/borescope/mapx","Elapsed":0.1}
not json
{"Action":"build-output","ImportPath":"github.com/borescope/borescope/pmc","Output":"pmc/x.go:1: undefined\n"}
{"Action":"fail","Package":"github.com/borescope/borescope/pmc"}
`
	var log strings.Builder
	c := &check{out: &log}
	runs := map[string]*packageRun{}
	if err := c.readEvents(strings.NewReader(stream), runs); err != nil {
		t.Fatal(err)
	}
	mapx := runs[module+"/mapx"]
	if rs := mapx.parser.Results(); mapx.status != "fail" || len(rs) != 1 || rs[0].Status != testlog.Fail {
		t.Errorf("%+v", mapx)
	}
	if runs[module+"/pmc"].status != "fail" || !strings.Contains(c.worth.String(), "undefined") {
		t.Errorf("the build failure is lost: %q", c.worth.String())
	}
	if !strings.Contains(log.String(), "wrong") || !strings.Contains(log.String(), "not json") {
		t.Errorf("log: %q", log.String())
	}
}

// TestStepsAllRun: a step that fails, panics not, and runs out of time must
// not keep the next from running, and the last line must add up. One that only compiles runs
// beside those before it, and its result comes at its place.
func TestStepsAllRun(t *testing.T) {
	c := &check{logs: t.TempDir(), table: newTable(nil)}
	var out strings.Builder
	together := make(chan bool)
	vs := c.doAll(context.Background(), []step{
		{"fails", "", time.Minute, func(context.Context, *check) (testlog.Counts, error) {
			together <- true
			return testlog.Counts{Passed: 5, Skipped: 2}, errors.New("broken")
		}},
		{"vet", "", time.Minute, func(_ context.Context, c *check) (testlog.Counts, error) {
			<-together
			return testlog.Counts{}, errors.New("vetted")
		}},
		{"late", "", time.Millisecond, func(ctx context.Context, c *check) (testlog.Counts, error) {
			<-ctx.Done()
			io.WriteString(c.out, "was here\n")
			return testlog.Counts{}, nil
		}},
		{"works", "", time.Minute, func(context.Context, *check) (testlog.Counts, error) {
			return testlog.Counts{}, nil
		}},
	}, &out)
	if c.conclude(&out, vs) {
		t.Error("success in spite of failed steps")
	}
	if got := out.String(); !strings.HasSuffix(got, "\nfailed: fails, vet, late\n6 passed, 3 failed, 2 skipped\n") ||
		!strings.Contains(got, "was here") || !strings.Contains(got, "not done within 1ms") {
		t.Errorf("%s", got)
	}
	if a, b, c := strings.Index(out.String(), "FAIL fails"), strings.Index(out.String(), "FAIL vet"),
		strings.Index(out.String(), "FAIL late"); a < 0 || a > b || b > c {
		t.Errorf("not in their order: %s", out.String())
	}
}

// TestNoSecondChance: a test that would pass if it were run again has failed.
func TestNoSecondChance(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod": "module " + module + "\n\ngo 1.26\n",
		"once/x_test.go": `package x
import ("os"; "testing")
func TestOnce(t *testing.T) {
	if _, err := os.Stat("mark"); err != nil {
		os.WriteFile("mark", nil, 0o644)
		t.Fatal("the first time")
	}
}`,
		"always/x_test.go": "package x\nimport \"testing\"\nfunc TestAlways(t *testing.T) {}\n",
	} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := &check{out: io.Discard, table: newTable(nil)}
	n, err := c.goTest(t.Context(), "here", "-count=1", "./...")
	if err == nil || err.Error() != "once: TestOnce" {
		t.Errorf("error %v", err)
	}
	if n != (testlog.Counts{Passed: 1, Failed: 1}) {
		t.Errorf("counts %+v", n)
	}
}
