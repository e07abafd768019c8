package bpfhttp

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// printTable writes a table as text.
func printTable(w io.Writer, t *contentTable, top int) error {
	if len(t.entries) == 0 {
		_, err := fmt.Fprintf(w, "@%s: empty\n", t.m.Name)
		return err
	}
	switch v := t.entries[0].Value.(type) {
	case uint64:
		return printAs(w, t, top, func(v any) (uint64, error) { return v.(uint64), nil })
	case int64:
		return printAs(w, t, top, func(v any) (int64, error) { return v.(int64), nil })
	case []hist.Bucket:
		return printAs(w, t, top, func(v any) (hist.Distribution, error) { return bpf.Distribution(t.m, v.([]hist.Bucket)) })
	case bpf.Value:
		switch {
		case v.Type.Kind == ir.KindInt && v.Type.Signed:
			return printAs(w, t, top, func(v any) (int64, error) { return v.(bpf.Value).Int(), nil })
		case v.Type.Kind == ir.KindInt:
			return printAs(w, t, top, func(v any) (uint64, error) { return uint64(v.(bpf.Value).Int()), nil })
		}
	}
	return printAs(w, t, top, func(v any) (words, error) { return wordsOf(t.m, v), nil })
}

// printAs writes a table of values of one type.
func printAs[V any](w io.Writer, t *contentTable, top int, as func(any) (V, error)) error {
	s := mapx.Snapshot[bpf.Value, V]{Entries: make([]mapx.Entry[bpf.Value, V], len(t.entries))}
	for i, e := range t.entries {
		v, err := as(e.Value)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.m.Name, err)
		}
		s.Entries[i] = mapx.Entry[bpf.Value, V]{Key: e.Key, Value: v}
	}
	return mapx.Print(w, "@"+t.m.Name, s, &mapx.PrintOptions[bpf.Value]{
		Top: top, Key: keyText, Scalar: t.m.Keyless(),
	})
}

// keyText is a key as one line: a tuple without its parentheses.
func keyText(v bpf.Value) string {
	if v.Type.Kind != ir.KindTuple {
		return escape.Terminal(leafText(v))
	}
	parts := make([]string, len(v.Type.Fields))
	for i := range parts {
		parts[i] = keyText(v.Elem(i))
	}
	return strings.Join(parts, ", ")
}

// leafText is a value that is no tuple. Bytes that are text up to the first NUL, and nothing
// behind it, are text: a Go array of bytes holds a name.
func leafText(v bpf.Value) string {
	if v.Type.Kind != ir.KindBytes {
		return v.String()
	}
	switch raw := []byte(v.Raw); v.Type.Format {
	case ir.FormatKstack, ir.FormatUstack:
		return v.String()
	case ir.FormatIP:
		if a, ok := netip.AddrFromSlice(raw); ok {
			return a.Unmap().String()
		}
	case ir.FormatMAC:
		return net.HardwareAddr(raw).String()
	}
	text, rest, _ := strings.Cut(v.Raw, "\x00")
	if text != "" && utf8.ValidString(text) && strings.Trim(rest, "\x00") == "" {
		return text
	}
	return hex.EncodeToString([]byte(v.Raw))
}

// words is the text of a value that is no number.
type words string

// String implements fmt.Stringer.
func (w words) String() string { return string(w) }

func wordsOf(m *ir.Map, v any) words {
	switch v := v.(type) {
	case bpf.Stat:
		text := fmt.Sprintf("count %d, average %.1f, total %d", v.Count, v.Mean(), v.Sum)
		if m.Agg == ir.AggStats {
			text += fmt.Sprintf(", min %d, max %d", v.Min, v.Max)
		}
		return words(text)
	case []bpf.Point:
		var parts []string
		for _, p := range v {
			parts = append(parts, fmt.Sprintf("%v: %d", p.Start, p.Value))
		}
		return words(strings.Join(parts, ", "))
	}
	if v, ok := v.(bpf.Value); ok {
		return words(keyText(v))
	}
	return words(escape.Terminal(fmt.Sprint(v)))
}

// largest orders entries by what they count, the largest first, and cuts them.
func largest(entries []mapx.Entry[bpf.Value, any], top int) []mapx.Entry[bpf.Value, any] {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b mapx.Entry[bpf.Value, any]) int { return cmp.Compare(weight(b.Value), weight(a.Value)) })
	return out[:min(len(out), top)]
}

// weight is what a value counts.
func weight(v any) (w float64) {
	switch v := v.(type) {
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	case bpf.Stat:
		return v.Mean()
	case []hist.Bucket:
		for _, b := range v {
			w += float64(b.Count)
		}
	case bpf.Value:
		if v.Type.Kind == ir.KindInt && !v.Type.Signed {
			return float64(uint64(v.Int()))
		}
		return float64(v.Int())
	}
	return w
}

// What the JSON of a page has.
type (
	jsonPage struct {
		Program string            `json:"program,omitempty"`
		Lost    map[string]uint64 `json:"lost,omitempty"`
		Tables  []jsonTable       `json:"tables"`
	}
	jsonTable struct {
		Name string `json:"name"`
		// Kind is the kind of the map, Counts its aggregation.
		Kind   string `json:"kind"`
		Counts string `json:"counts,omitempty"`
		// Entries are how many it has; the largest of them follow.
		Size    int         `json:"size"`
		Error   string      `json:"error,omitempty"`
		Entries []jsonEntry `json:"entries"`
	}
	jsonEntry struct {
		Key   any `json:"key,omitempty"`
		Value any `json:"value"`
	}
	jsonStat struct {
		Count uint64 `json:"count"`
		Sum   int64  `json:"sum"`
		Min   int64  `json:"min"`
		Max   int64  `json:"max"`
	}
	jsonBucket struct {
		Min   int64  `json:"min"` // both in the bucket
		Max   int64  `json:"max"`
		Count uint64 `json:"count"`
	}
	jsonPoint struct {
		Start int64 `json:"start_ns"` // CLOCK_MONOTONIC
		Value int64 `json:"value"`
	}
)

// json writes a page as JSON.
func (h *Handler) json(w io.Writer, c *content) error {
	page := jsonPage{Tables: []jsonTable{}}
	if c.stats != nil {
		page.Program, page.Lost = h.title, map[string]uint64{}
		for _, l := range losses(c.stats) {
			page.Lost[l.name] = l.n
		}
	}
	for _, t := range c.tables {
		out := jsonTable{
			Name: t.m.Name, Kind: t.m.Kind.String(), Size: len(t.entries), Entries: []jsonEntry{},
		}
		if t.m.Agg != ir.AggNone {
			out.Counts = t.m.Agg.String()
		}
		if t.err != nil {
			out.Error = t.err.Error()
		}
		for _, e := range largest(t.entries, c.top) {
			entry := jsonEntry{Value: plain(e.Value)}
			if !t.m.Keyless() {
				entry.Key = plain(e.Key)
			}
			out.Entries = append(out.Entries, entry)
		}
		page.Tables = append(page.Tables, out)
	}
	b, err := json.Marshal(page)
	if err != nil {
		return err
	}
	_, err = w.Write(append(escape.JSON(b), '\n'))
	return err
}

// plain returns what JSON has of a value: numbers as they are, text as a string, addresses as
// "0x…", bytes that are no text in base 16, and tuples and stacks as arrays.
func plain(v any) any {
	switch v := v.(type) {
	case bpf.Stat:
		return jsonStat(v)
	case []hist.Bucket:
		out := make([]jsonBucket, len(v))
		for i, b := range v {
			out[i] = jsonBucket{b.Lo, b.Last(), b.Count}
		}
		return out
	case []bpf.Point:
		out := make([]jsonPoint, len(v))
		for i, p := range v {
			out[i] = jsonPoint{int64(p.Start), p.Value}
		}
		return out
	case []bpf.Value:
		return each(len(v), func(i int) bpf.Value { return v[i] })
	case bpf.Value:
		return plainValue(v)
	}
	return v
}

func each(n int, value func(int) bpf.Value) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = plainValue(value(i))
	}
	return out
}

func plainValue(v bpf.Value) any {
	switch v.Type.Kind {
	case ir.KindBool:
		return v.Int() != 0
	case ir.KindInt:
		if !v.Type.Signed {
			return uint64(v.Int())
		}
		return v.Int()
	case ir.KindTuple:
		return each(len(v.Type.Fields), v.Elem)
	}
	if f := v.Type.Format; f == ir.FormatKstack || f == ir.FormatUstack {
		pcs := v.PCs()
		out := make([]string, len(pcs))
		for i, pc := range pcs {
			out[i] = fmt.Sprintf("%#x", pc)
		}
		return out
	}
	return leafText(v)
}
