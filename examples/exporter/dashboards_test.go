package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
)

var (
	quoted = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]`)                  // texts, and ranges of time
	braced = regexp.MustCompile(`\{[^}]*\}|\b(by|without) *\([^)]*\)`) // labels
	word   = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*( *\()?`)     // metrics and functions
	own    = regexp.MustCompile(`"(borescope_[a-z_]+)"`)               // what Go code exports
	suffix = regexp.MustCompile(`_(bucket|count|sum)$`)                // of histograms
)

// metricsIn returns the metrics that an expression of PromQL uses.
func metricsIn(expr string) (names []string) {
	expr = braced.ReplaceAllString(quoted.ReplaceAllString(expr, ""), "")
	for _, w := range word.FindAllString(expr, -1) {
		if !strings.HasSuffix(w, "(") {
			names = append(names, w)
		}
	}
	return names
}

// TestMetricsIn tests metricsIn.
func TestMetricsIn(t *testing.T) {
	got := metricsIn(`histogram_quantile(0.9, sum by (le, x) (rate(a_bucket{i=~"$b"}[$__c]))) > 0 + sum without(y) (d:e)`)
	if want := []string{"a_bucket", "d:e"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDashboards: each metric of a dashboard is one of the scripts' or of the exporter's, and each of
// the scripts' is on one.
func TestDashboards(t *testing.T) {
	have := map[string]bool{}
	for name, text := range shippedScripts(t) {
		h, err := readHead(name, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range h.metrics {
			have[d.metric.Name] = false
		}
	}
	sources, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(sources, "service.go") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range own.FindAllStringSubmatch(string(b), -1) {
			have[m[1]] = true
		}
	}
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(b, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range board.Panels {
			if len(p.Targets) == 0 {
				t.Errorf("%s: %s shows nothing", file, p.Title)
			}
			for _, target := range p.Targets {
				for _, name := range metricsIn(target.Expr) {
					name = suffix.ReplaceAllString(name, "")
					if _, is := have[name]; !is {
						t.Errorf("%s: %s: nobody exports %s", file, p.Title, name)
					}
					have[name] = true
				}
			}
		}
	}
	for name, used := range have {
		if !used {
			t.Errorf("no dashboard shows %s", name)
		}
	}
}

func shippedScripts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("scripts/*.bt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	texts := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(b)
	}
	return texts
}

// TestScripts: the scripts run, and count what this machine does.
func TestScripts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Tracepoint("tcp", "tcp_receive_reset"),
		testenv.Tracepoint("block", "block_rq_issue"), testenv.Tool("bash"))
	texts := shippedScripts(t)
	e := startExporter(t, texts)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		e.wants(`borescope_script_up{script="`+name+`"}`, 1)
	}
	w := startWork(t)
	w.do(5, 1000)
	if n, _ := e.value(`syscalls_total{comm="` + comm(t) + `"}`); n < 2000 {
		t.Errorf("%v system calls", n)
	}
	if n, _ := e.value("runq_wait_seconds_count"); n == 0 {
		t.Error("nobody waited for a CPU")
	}
	address := strings.ReplaceAll(strings.TrimPrefix(e.base, "http://"), ":", "/")
	if out, err := testenv.Command(t, "bash", "-c", "exec 3<>/dev/tcp/"+address).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n, _ := e.value(`tcp_connections_total{how="connect"}`); n == 0 {
		t.Error("no connection")
	}
	if t.Failed() {
		t.Log(get(t, e.base+"/"))
	}
}

// TestErrorsShowThePlace: what is wrong with a script is said with its line.
func TestErrorsShowThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"// metric @a nam=x: y":                            "a.bt:1: metric: unknown option \"nam\"",
		"\n// metric @a name=x":                            "a.bt:2: metric: no help text",
		"// budget cpu=200%":                               "a.bt:1: budget: 200% is not a share",
		"// metric @b name=x: y\nbegin { @a = count() }":   "a.bt:1: the script has no map @b; did you mean \"@a\"?",
		"// metric @a labels=x: y\nbegin { @a = count() }": "a.bt:1: 1 labels for the 0 parts",
		"// metric @a name=a-b: y\nbegin { @a = count() }": "a.bt:1: \"a-b\" is not the name",
		"// metric @a: y\nbegin { @a = comm }":             "a.bt:1: @a: a string",
		"// metric @a name=x: y\n// metric @b name=x: y\nbegin { @a = count(); @b = count() }": "a.bt:2: @a and @b are both x",
	} {
		_, err := start("a.bt", text, ir.Budget{}, nil)
		if err == nil || !strings.Contains(err.Error()+syntax.ErrorText(err), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
