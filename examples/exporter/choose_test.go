package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/probe/script"
)

// TestDefaults: metrics that no head describes have the names and types of their maps.
func TestDefaults(t *testing.T) {
	const text = `begin {
	@ = count(); @by[pid, comm, 1] = sum((uint64)1); @signed[(int64)pid] = sum(-1); @h[comm] = hist(1); @avg = avg(1);
	@max[(a=1, b=2)] = max(1); @state[tid] = nsecs; @text = comm; @t = tseries(1, 1s, 5);
}`
	c, err := script.Check("my-script.bt", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exports("my-script.bt", text, c.Types, &head{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		kind := map[bpfprom.Kind]string{bpfprom.Counter: "counter", bpfprom.Gauge: "gauge"}[e.metric.Kind]
		got = append(got, fmt.Sprintf("%s %s %s %q", e.name, e.metric.Name, kind, e.metric.Labels))
	}
	want := []string{
		`@ my_script_total counter []`, `@avg my_script_avg gauge []`, `@by my_script_by_total counter ["pid" "comm" "key3"]`,
		`@h my_script_h gauge ["comm"]`, `@max my_script_max gauge ["a" "b"]`, `@signed my_script_signed gauge ["pid"]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
