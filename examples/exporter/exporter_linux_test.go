package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/probe/tool/cli"
)

// workload is a process that calls as it is told.
type workload struct {
	t   *testing.T
	pid int
	in  io.Writer
	out *bufio.Reader
	did chan error // of a round that was begun
}

func startWork(t *testing.T) *workload {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, exe)
	cmd.Env = append(os.Environ(), "EXPORTER_WORK=1")
	in, out := testenv.Piped(t, cmd)
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &workload{t, cmd.Process.Pid, in, bufio.NewReader(out), make(chan error, 1)}
}

// begin has it make n calls, and end waits until it has.
func (w *workload) begin(value, n int) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.in, "%d %d\n", value, n); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_, err := w.out.ReadString('\n')
		w.did <- err
	}()
}

func (w *workload) end() {
	w.t.Helper()
	if err := <-w.did; err != nil {
		w.t.Fatal(err)
	}
}

// ended reports whether it has made the calls that were begun, and forgets them then.
func (w *workload) ended() bool {
	w.t.Helper()
	if len(w.did) == 0 {
		return false
	}
	w.end()
	return true
}

func (w *workload) do(value, n int) { w.t.Helper(); w.begin(value, n); w.end() }

// exporter runs the command with a directory of scripts.
type exporter struct {
	t    *testing.T
	dir  string
	base string // its URL
	said *bufio.Reader
}

func startExporter(t *testing.T, scripts map[string]string, args ...string) *exporter {
	t.Helper()
	e := &exporter{t: t, dir: t.TempDir()}
	for name, text := range scripts {
		e.write(name, text)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		args := append([]string{"-scripts", e.dir, "-listen", "127.0.0.1:0", "-every", "10ms"}, args...)
		done <- run(ctx, args, cli.NewOutput(w))
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		go io.Copy(io.Discard, r)
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	e.said = bufio.NewReader(r)
	e.base = strings.TrimSuffix(e.hears("listening at "), "/")
	go io.Copy(io.Discard, e.said)
	return e
}

// hears returns what is behind a text in the first line that begins with it.
func (e *exporter) hears(text string) string {
	e.t.Helper()
	for {
		line, err := e.said.ReadString('\n')
		if err != nil {
			e.t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(line, text); ok {
			return strings.TrimSpace(rest)
		}
	}
}

// write writes a script as an editor does: the directory has the old one or the new one.
func (e *exporter) write(name, text string) {
	e.t.Helper()
	tmp := filepath.Join(e.dir, "."+name)
	if err := errors.Join(os.WriteFile(tmp, []byte(text), 0o600), os.Rename(tmp, filepath.Join(e.dir, name))); err != nil {
		e.t.Fatal(err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, r.Status, err, b)
	}
	return string(b)
}

// value returns the value of a series, as /metrics has it, and whether there is one.
func (e *exporter) value(series string) (float64, bool) {
	e.t.Helper()
	for line := range strings.Lines(get(e.t, e.base+"/metrics")) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				e.t.Fatal(err)
			}
			return v, true
		}
	}
	return 0, false
}

// wants checks the value of a series.
func (e *exporter) wants(series string, want float64) {
	e.t.Helper()
	if got, ok := e.value(series); !ok || got != want {
		e.t.Errorf("%s is %v, %v; want %v", series, got, ok, want)
	}
}

// waits waits until a series has a value: the test binary's time is the limit.
func (e *exporter) waits(series string, want float64) {
	e.t.Helper()
	for {
		if got, _ := e.value(series); got == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// calls is the script of the tests: what a process calls, and a histogram of the marks' arguments.
func (w *workload) calls(more string) string {
	return fmt.Sprintf(`// metric @calls name=calls_total labels=comm: Calls of getppid.
// metric @sizes name=sizes: Arguments of marks.
tracepoint:syscalls:sys_enter_getppid /pid == %d/ { @calls[comm] = count(); }
tracepoint:raw_syscalls:sys_enter /pid == %d && args.id == %d/ { @sizes = hist(args.args[0]); }
%s`, w.pid, w.pid, mark, more)
}

// comm is what the workload is called: the test's program, cut as the kernel cuts it.
func comm(t *testing.T) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(exe)
	return name[:min(len(name), 15)]
}

// TestReload: counts go on over versions of a script; a wrong one changes nothing; a script that is
// gone is gone with its metrics.
func TestReload(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Arch("amd64"))
	w := startWork(t)
	e := startExporter(t, map[string]string{"calls.bt": w.calls("")})
	calls, reloads, up := fmt.Sprintf("calls_total{comm=%q}", comm(t)),
		`borescope_script_reloads_total{script="calls.bt"}`, `borescope_script_up{script="calls.bt"}`
	e.wants(up, 1)
	w.do(5, 100)
	e.wants(calls, 100)
	w.do(5, 23)
	e.write("calls.bt", w.calls("end { clear(@calls); }"))
	e.waits(reloads, 1)
	e.wants(calls, 123)
	w.do(5, 1000)
	e.wants(calls, 1123)
	e.write("calls.bt", w.calls("interval:s:1 { @x = count() }")) // whose end clears what was counted
	e.waits(reloads, 2)
	e.wants(calls, 1123)

	e.write("calls.bt", w.calls("kprobe: {"))
	e.waits(up, 0)
	w.do(5, 7)
	e.wants(calls, 1130)
	if page := get(t, e.base+"/"); !strings.Contains(page, "an earlier version runs") ||
		!strings.Contains(page, "calls.bt:") {
		t.Errorf("the page does not say what is wrong:\n%s", page)
	}
	e.write("calls.bt", w.calls(""))
	e.waits(up, 1)
	w.do(5, 3)
	e.wants(calls, 1133)
	e.wants("sizes_count", 1133)

	e.write("other.bt", "// metric @calls name=calls_total: Another.\n"+w.calls("")) // the name is taken
	e.waits(`borescope_script_up{script="other.bt"}`, 0)
	e.wants(calls, 1133)

	if err := os.Remove(filepath.Join(e.dir, "calls.bt")); err != nil {
		t.Fatal(err)
	}
	for {
		if _, is := e.value(calls); !is {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestOtherBuckets: a histogram with other buckets than in the earlier version begins anew.
func TestOtherBuckets(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	w := startWork(t)
	text := func(top int) string {
		return fmt.Sprintf("// metric @h name=h: Ones.\n"+
			"tracepoint:syscalls:sys_enter_getppid /pid == %d/ { @h = lhist(1, 0, %d, 10); }", w.pid, top)
	}
	e := startExporter(t, map[string]string{"h.bt": text(100)})
	w.do(5, 10)
	e.wants("h_count", 10)
	e.write("h.bt", text(200))
	e.waits(`borescope_script_reloads_total{script="h.bt"}`, 1)
	w.do(5, 3)
	e.wants("h_count", 3)
	e.wants(`borescope_read_errors_total{metric="h"}`, 0)
}

// TestReloadUnderLoad: while versions take over from each other and a process calls without a pause, each
// call counts once. For probes of other kinds see TestHandover in probe/script.
func TestReloadUnderLoad(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.CPUs(2))
	w := startWork(t)
	text := fmt.Sprintf("// metric @calls name=calls_total: Calls of getppid.\n"+
		"tracepoint:syscalls:sys_enter_getppid /pid == %d/ { @calls = count(); }", w.pid)
	e := startExporter(t, map[string]string{"calls.bt": text})
	const reloads, n = 20, 100_000
	calls := float64(0)
	w.begin(5, n)
	for i := range reloads {
		e.write("calls.bt", fmt.Sprintf("%s // %d", text, i))
		e.waits(`borescope_script_reloads_total{script="calls.bt"}`, float64(i+1))
		if w.ended() { // some are reloaded between two rounds, most within one
			calls += n
			w.begin(5, n)
		}
	}
	w.end()
	calls += n
	got, _ := e.value("calls_total")
	most := 0.0
	if feature.KernelAtLeast("7.0") { // it preempts threads between the programs of tracepoints (bpf.Handover)
		most = reloads
	}
	if math.Abs(got-calls) > most {
		t.Errorf("%v calls are counted, of %v", got, calls)
	}
	e.wants(`borescope_lost_total{reason="missed",session="calls.bt"}`, 0)
	t.Logf("%v of %v calls, %d reloads", got, calls, reloads)
}

// TestBudgets: what a script may cost is enforced in the kernel, and shown.
func TestBudgets(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	w := startWork(t)
	text := fmt.Sprintf("// budget cpu=0.001%%\n"+
		"tracepoint:syscalls:sys_enter_getppid /pid == %d/ { @calls = count(); }", w.pid)
	e := startExporter(t, map[string]string{
		"calls.bt": text, "large.bt": "// budget memory=1K\nbegin { @x[1] = count(); }",
	}, "-cpu", "50")
	w.do(5, 100_000)
	calls, _ := e.value("calls_calls_total")
	throttled, _ := e.value(`borescope_lost_total{reason="throttled",session="calls.bt"}`)
	if throttled == 0 || calls+throttled != 100_000 {
		t.Errorf("%v counted and %v left out of 100000", calls, throttled)
	}
	e.wants(`borescope_script_up{script="large.bt"}`, 0)
	page := get(t, e.base+"/")
	for _, want := range []string{"0.001 % of each CPU", "throttled: ", "the budget is 1024"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
}

// TestOthersScripts: a script that another user could change does not run.
func TestOthersScripts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.bt")
	if err := os.WriteFile(file, []byte("begin { }"), 0o600); err != nil {
		t.Fatal(err)
	}
	if texts, failed, err := readScripts(dir); err != nil || len(failed) > 0 || texts["a.bt"] != "begin { }" {
		t.Errorf("%q, %v, %v", texts, failed, err)
	}
	if err := os.Chmod(file, 0o622); err != nil {
		t.Fatal(err)
	}
	if texts, failed, err := readScripts(dir); err != nil || len(texts) > 0 || failed["a.bt"] == nil {
		t.Errorf("a script that all can write: %q, %v, %v", texts, failed, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readScripts(dir); err == nil {
		t.Error("a directory that all can write is read")
	}
}

// TestOTLP: a Collector gets the counts of a known workload.
func TestOTLP(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs)
	requests := make(chan *v1.MetricsData)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m v1.MetricsData
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(b, &m)
		}
		if err != nil {
			t.Error(err)
		}
		select {
		case requests <- &m:
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(collector.Close)
	w := startWork(t)
	startExporter(t, map[string]string{"calls.bt": w.calls("")}, "-otlp", collector.URL, "-otlp-every", "10ms")
	w.do(5, 1000)
	<-requests // may be from before
	seen := 0
	for _, m := range (<-requests).ResourceMetrics[0].ScopeMetrics[0].Metrics {
		switch m.Name {
		case "calls_total":
			if v := m.GetSum().DataPoints[0].GetAsDouble(); v != 1000 {
				t.Errorf("%v calls", v)
			}
		case "sizes": // 5 is in (4, 8]
			p := m.GetExponentialHistogram().DataPoints[0]
			if p.Scale != 0 || p.Positive.Offset != 2 || fmt.Sprint(p.Positive.BucketCounts) != "[1000]" {
				t.Errorf("the histogram is %v", p)
			}
		default:
			continue
		}
		seen++
	}
	if seen != 2 {
		t.Errorf("%d of 2 metrics", seen)
	}
}

// promServer is a Prometheus server that scrapes an exporter each second.
type promServer struct {
	t    *testing.T
	base string
}

func startPrometheus(t *testing.T, e *exporter) *promServer {
	t.Helper()
	program, err := kernel.DebianFile("bookworm", runtime.GOARCH, "prometheus", "usr/bin/prometheus")
	testenv.Need(t, testenv.Got("Debian's prometheus", err,
		"Could not resolve", "Temporary failure", "Unable to connect", "Network is unreachable"))
	dir := t.TempDir()
	config := fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs: [{job_name: exporter, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(e.base, "http://"))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	cmd := testenv.Command(t, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--enable-feature=native-histograms", "--log.level=warn")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus says\n%s", said.Bytes())
		}
	})
	return &promServer{t, "http://" + address}
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// query returns the only value of an expression, and whether there is one.
func (p *promServer) query(expr string) (float64, bool) {
	p.t.Helper()
	r, err := http.Get(p.base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, false // it is not ready
	}
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if r.StatusCode == http.StatusServiceUnavailable {
		return 0, false
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Error != "" {
		p.t.Fatalf("%s: %v %s", expr, err, answer.Error)
	}
	if len(answer.Data.Result) != 1 {
		return 0, false
	}
	v, err := strconv.ParseFloat(answer.Data.Result[0].Value[1].(string), 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return v, true
}

// scraped waits until a scrape that began after now is there.
func (p *promServer) scraped(series string) {
	p.t.Helper()
	begin := float64(time.Now().UnixMilli()) / 1000
	for {
		if at, ok := p.query("timestamp(" + series + ")"); ok && at > begin {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *promServer) wants(expr string, want float64) {
	p.t.Helper()
	if got, ok := p.query(expr); !ok || got != want {
		p.t.Errorf("%s is %v, %v; want %v", expr, got, ok, want)
	}
}

// TestPrometheus: a Prometheus server has the counts of a known workload exactly, over a reload, and
// quantiles of native histograms are in the buckets of the values.
func TestPrometheus(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.Tracefs, testenv.Long, testenv.Tool("apt-get"), testenv.Arch("amd64"))
	w := startWork(t)
	e := startExporter(t, map[string]string{"calls.bt": w.calls("")})
	p := startPrometheus(t, e)
	calls := fmt.Sprintf("calls_total{comm=%q}", comm(t))

	w.do(100, 1000)
	w.do(3000, 3000)
	p.scraped(calls)
	p.wants("sum(calls_total)", 4000)
	p.wants("histogram_count(sizes)", 4000)

	e.write("calls.bt", w.calls("// again"))
	e.waits(`borescope_script_reloads_total{script="calls.bt"}`, 1)
	w.do(100_000, 23)
	p.scraped(calls)
	p.wants(calls, 4023)
	p.wants("histogram_count(sizes)", 4023)
	p.wants(`resets(calls_total[1m])`, 0)
	for q, value := range map[string]float64{"0.1": 100, "0.5": 3000, "0.999": 100_000} {
		got, ok := p.query("histogram_quantile(" + q + ", sizes)")
		if low := math.Exp2(math.Floor(math.Log2(value))); !ok || got < low || got > 2*low {
			t.Errorf("quantile %s is %v, %v: %v is in [%v, %v)", q, got, ok, value, low, 2*low)
		}
	}
	p.wants(`borescope_script_up{script="calls.bt"}`, 1)
	p.wants(`sum(borescope_lost_total)`, 0)
}
