package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/borescope/borescope/examples/exporter/bpfprom"
	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// exported is a map of a script that is a metric. Maps of two versions of a script go on counting if
// they are equal.
type exported struct {
	name    string // of the map
	kind    types.Kind
	buckets [4]int64 // of a histogram: Bits, Min, Max and Step of its ir.Map
	metric  bpfprom.Metric
}

// exports returns the maps of a script that are metrics: those of its head or, if that names none, all
// that aggregate.
func exports(file, text string, p *types.Script, h *head) ([]exported, error) {
	maps := slices.DeleteFunc(p.Maps(), func(name string) bool { return !strings.HasPrefix(name, "@") })
	declarations := h.metrics
	if len(declarations) == 0 {
		for _, name := range maps {
			if _, value := p.Map(name); value.Kind >= types.Count && value.Kind != types.Tseries {
				declarations = append(declarations, declared{where: file, name: name})
			}
		}
	}
	keys := keyNames(file, text)
	var out []exported
	for _, d := range declarations {
		if !slices.Contains(maps, d.name) {
			return nil, fmt.Errorf("%s: the script has no map %s%s", d.where, d.name, near.Hint(d.name, maps))
		}
		key, value := p.Map(d.name)
		e := exported{name: d.name, kind: value.Kind, metric: d.metric}
		if err := e.measure(file, value); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.where, d.name, err)
		}
		names := []string{}
		if !p.Scalar(d.name) {
			names = labels(key, keys[d.name])
		}
		switch given := e.metric.Labels; {
		case given == nil:
			e.metric.Labels = names
		case len(given) != len(names):
			return nil, fmt.Errorf("%s: %d labels for the %d parts of the keys of %s", d.where, len(given), len(names), d.name)
		}
		if err := e.metric.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.where, err)
		}
		for _, other := range out {
			if other.metric.Name == e.metric.Name {
				return nil, fmt.Errorf("%s: %s and %s are both %s", d.where, other.name, e.name, e.metric.Name)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// measure chooses what a metric is and what it is called, where the head does not say it.
func (e *exported) measure(file string, value types.Type) error {
	m := &e.metric
	kind := bpfprom.Gauge
	switch value.Kind {
	case types.Count:
		kind = bpfprom.Counter
	case types.Sum:
		if !value.Signed { // a signed one may fall
			kind = bpfprom.Counter
		}
	case types.Integer, types.Min, types.Max, types.Avg, types.Stats, types.Hist, types.Lhist:
	default:
		return fmt.Errorf("a %v cannot be a metric", value)
	}
	m.Kind = cmp.Or(m.Kind, kind)
	if m.Name != "" {
		return nil
	}
	m.Name = metricName(strings.TrimSuffix(file, extension) + "_" + strings.TrimPrefix(e.name, "@"))
	if m.Kind == bpfprom.Counter && value.Kind <= types.Max {
		m.Name += "_total"
	}
	return nil
}

// metricName makes a name of a text: letters, digits and '_'.
func metricName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, strings.Trim(s, "_"))
	if s == "" || s[0] <= '9' {
		return "_" + s
	}
	return s
}

// labels returns the names of the parts of a key: those of the expressions that the script has for
// them, or key1 and so on.
func labels(key types.Type, named []string) []string {
	n := 1
	switch key.Kind {
	case types.Record:
		n, named = len(key.Fields), nil
		for _, f := range key.Fields {
			named = append(named, f.Name)
		}
	case types.Tuple:
		n = len(key.Fields)
	}
	if n == 1 && len(named) != 1 {
		return []string{"key"}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = "key" + strconv.Itoa(i+1)
		if len(named) == n && model.LegacyValidation.IsValidLabelName(named[i]) && !slices.Contains(out[:i], named[i]) {
			out[i] = named[i]
		}
	}
	return out
}

// keyNames returns how the first access to each map names the parts of its key: @[comm, args.mode] has
// comm and mode. "" is a part without a name.
func keyNames(file, text string) map[string][]string {
	out := map[string][]string{}
	c, err := script.Read(file, text, nil)
	if err != nil {
		return out // Compile says why
	}
	for n := range syntax.All(c.File) {
		a, ok := n.(*syntax.MapAccess)
		if !ok || out[a.Map.Name] != nil {
			continue
		}
		parts := []syntax.Expr{a.Key}
		if t, ok := a.Key.(*syntax.Tuple); ok {
			parts = t.Elems
		}
		for _, p := range parts {
			out[a.Map.Name] = append(out[a.Map.Name], nameOf(p))
		}
	}
	return out
}

// nameOf returns the name of an expression.
func nameOf(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.Builtin:
		return x.Name
	case *syntax.Identifier:
		return x.Name
	case *syntax.Field:
		return x.Name
	case *syntax.Variable:
		return strings.TrimPrefix(x.Name, "$")
	case *syntax.Cast:
		return nameOf(x.X)
	case *syntax.Call:
		if len(x.Args) == 1 && nameOf(x.Args[0]) != "" { // str(args.filename), ksym(arg0)
			return nameOf(x.Args[0])
		}
		return x.Name
	}
	return ""
}

// collect returns a collector for a map of a session: c, which goes on with it, or a new one if that is
// nil.
func (e *exported) collect(s *script.Session, c *bpfprom.Collector) (*bpfprom.Collector, error) {
	if e.kind == types.Hist || e.kind == types.Lhist {
		return collect[hist.Distribution](e, s, c)
	}
	return collect[any](e, s, c)
}

func collect[V any](e *exported, s *script.Session, c *bpfprom.Collector) (*bpfprom.Collector, error) {
	t, err := script.Map[any, V](s, e.name)
	if err != nil {
		return nil, err
	}
	if c != nil {
		return c, bpfprom.Continue(c, t)
	}
	return bpfprom.New(t, e.metric)
}

// equal reports whether two versions of a metric are the same, but for the help, which is the first
// one's.
func (e *exported) equal(o *exported) bool {
	a, b := &e.metric, &o.metric
	return e.name == o.name && e.kind == o.kind && e.buckets == o.buckets &&
		a.Name == b.Name && a.Kind == b.Kind && a.Scale == b.Scale && a.Classic == b.Classic &&
		a.MaxSeries == b.MaxSeries && a.Expire == b.Expire && slices.Equal(a.Labels, b.Labels)
}
