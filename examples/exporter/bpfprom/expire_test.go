package bpfprom

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/borescope/borescope/mapx"
)

// entries is a table of counts.
type entries map[string]uint64

func (e entries) Snapshot() (s mapx.Snapshot[string, uint64], err error) {
	for k, v := range e {
		s.Entries = append(s.Entries, mapx.Entry[string, uint64]{Key: k, Value: v})
	}
	return s, nil
}

func (e entries) ReadAndClear() (mapx.Snapshot[string, uint64], error) { panic("not called") }

// TestExpire: a series ends when its key has been gone for Expire, and so makes room for another's; one whose
// key is in the map, or was of late, does not end. A key that comes back begins anew.
func TestExpire(t *testing.T) {
	table := entries{"gone": 7, "stays": 1}
	c, err := New(table, Metric{Name: "c_total", Expire: time.Minute, MaxSeries: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	c.now = func() time.Time { return now }
	step := func(after time.Duration, want map[string]float64, expired float64) {
		t.Helper()
		now = now.Add(after)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				v := m.GetCounter().GetValue()
				switch {
				case f.GetName() == "c_total":
					got[label(m)] = v
				case f.GetName() == "borescope_series_expired_total" && v != expired:
					t.Errorf("%v have expired, want %v", v, expired)
				}
			}
		}
		if len(got) != len(want) {
			t.Errorf("%v, want %v", got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s is %v, want %v", k, got[k], v)
			}
		}
	}
	step(0, map[string]float64{"gone": 7, "stays": 1}, 0)
	delete(table, "gone")
	step(time.Second, map[string]float64{"gone": 7, "stays": 1}, 0)
	table["new"] = 3
	step(58*time.Second, map[string]float64{"gone": 7, "stays": 1, Other: 3}, 0)
	delete(table, "new")
	table["next"] = 4
	step(time.Second, map[string]float64{"next": 4, "stays": 1, Other: 3}, 1)
	delete(table, "next")
	table["gone"] = 2
	step(time.Hour, map[string]float64{"gone": 2, "stays": 1, Other: 3}, 2)
}

func label(m *dto.Metric) string { return m.GetLabel()[0].GetValue() }
