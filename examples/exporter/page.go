package main

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/tool/cli"
)

// row is a script on the page.
type row struct {
	Name, State, Error string
	Probes             int
	Metrics            []string
	For                time.Duration // since it was attached
	Runs               uint64
	Time               time.Duration // of all runs
	Each               time.Duration // of one run
	Share              float64       // of one CPU, in percent, since it was attached
	Memory             string
	Budget             string
	Lost               []string
	Reloads            int
}

// rows returns what runs, what it costs and what it loses.
func (s *service) rows() (rows []row, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.units)) {
		rows = append(rows, s.units[name].row())
	}
	return rows, s.err
}

func (u *unit) row() row {
	r := row{Name: u.name, State: "does not run", Reloads: u.reloads}
	if u.err != nil {
		r.Error = cmp.Or(strings.TrimSpace(syntax.ErrorText(u.err)), u.err.Error())
	}
	now := u.running
	if now == nil {
		return r
	}
	switch {
	case now.ended():
		r.State = "has ended"
		if now.err != nil {
			r.Error = now.err.Error()
		}
	case u.err != nil:
		r.State = "an earlier version runs"
	default:
		r.State = "runs"
	}
	r.Probes, r.Budget, r.For = len(now.probes), budgetText(now.budget), time.Since(now.began).Round(time.Second)
	for _, e := range now.exports {
		r.Metrics = append(r.Metrics, e.metric.Name)
		if c := u.collectors[e.name]; c != nil && c.Err() != nil {
			r.Lost = append(r.Lost, fmt.Sprintf("%s: %v", e.metric.Name, c.Err()))
		}
	}
	st, ring, err := now.session.Stats()
	if err != nil {
		r.Lost = append(r.Lost, err.Error())
		return r
	}
	r.costs(&st, time.Since(now.began))
	lost := maps.Collect(st.Lost(ring))
	for _, reason := range slices.Sorted(maps.Keys(lost)) {
		if n := lost[reason]; n > 0 {
			r.Lost = append(r.Lost, fmt.Sprintf("%s: %d", reason, n))
		}
	}
	return r
}

// costs fills in what a script costs.
func (r *row) costs(st *bpf.Stats, since time.Duration) {
	for _, p := range st.Programs {
		r.Runs += p.Runs
		r.Time += p.Time
	}
	if r.Runs > 0 {
		r.Each = r.Time / time.Duration(r.Runs)
	}
	r.Share = 100 * r.Time.Seconds() / max(since.Seconds(), 1e-9)
	var bytes uint64
	for _, m := range st.Maps {
		bytes += m.Bytes
	}
	r.Memory = fmt.Sprintf("%.1f KiB", float64(bytes)/1024)
}

func budgetText(b ir.Budget) string {
	var parts []string
	if b.CPUPercent > 0 {
		parts = append(parts, fmt.Sprintf("%g %% of each CPU", b.CPUPercent))
	}
	if b.EventsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%d events/s and CPU", b.EventsPerSecond))
	}
	if b.MapBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes", b.MapBytes))
	}
	return strings.Join(parts, ", ")
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"safe": cli.Escape, "lines": func(s string) []string { return strings.Split(s, "\n") },
}).Parse(`<!DOCTYPE html>
<meta charset="utf-8">
<title>borescope exporter</title>
<style>
body { font: 14px sans-serif; margin: 2em }
td, th { text-align: left; vertical-align: top; padding: .3em 1em .3em 0; border-bottom: 1px solid #ccc }
pre { margin: 0 }
</style>
<h1>Scripts</h1>
<p><a href="/metrics">metrics</a></p>
{{with .Err}}<p>{{safe .}}</p>{{end}}
<table>
<tr><th>script<th>state<th>metrics<th>probes<th>for<th>runs<th>a run<th>of one CPU<th>maps<th>budget<th>lost</tr>
{{range .Rows}}<tr><td>{{safe .Name}}<td>{{.State}}{{if .Reloads}}, reloaded {{.Reloads}} times{{end}}
<td>{{range .Metrics}}{{safe .}}<br>{{end}}<td>{{.Probes}}<td>{{.For}}<td>{{.Runs}}<td>{{.Each}}<td>{{printf "%.3f" .Share}} %
<td>{{.Memory}}<td>{{.Budget}}<td>{{range .Lost}}{{safe .}}<br>{{end}}</tr>
{{with .Error}}<tr><td><td colspan="10"><pre>{{range lines .}}{{safe .}}
{{end}}</pre></tr>
{{end}}{{end}}</table>
`))

// ServeHTTP serves the page.
func (s *service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	rows, err := s.rows()
	content := struct {
		Rows []row
		Err  string
	}{Rows: rows}
	if err != nil {
		content.Err = err.Error()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_ = page.Execute(w, content) // a client that is gone needs no answer
}
