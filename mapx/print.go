package mapx

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/borescope/borescope/hist"
)

// PrintOptions are the options of Print and PrintJSON. The zero value prints all entries
// unchanged.
type PrintOptions[K any] struct {
	// Top prints only that many entries, those with the largest values, as
	// bpftrace's print(@x, top) does; 0 prints all.
	Top int
	// Div divides values and histogram counts before printing, as print(@x, top,
	// div) does; 0 is 1. Histograms with linear buckets are not divided.
	Div int64
	// Key returns the text of a key. Nil prints structs as their fields, byte arrays as
	// strings up to the first zero byte, and keys with a String method by that.
	Key func(K) string
	// Scalar prints a single entry without its key: "@x: 5". It is implied if K has no fields.
	Scalar bool
}

// Print writes a snapshot as bpftrace 0.26 prints a map of that name ("@x"): lines "@x[key]:
// value", ascending by value if values are numbers (averages by their mean, histograms by their
// total), else by key. V may be a number, a bool, a byte array (a string), an array, a struct
// (a tuple), an Average, Totals or Extreme, a hist distribution, or have a String method. The
// snapshot is not changed. opts may be nil.
//
// bpftrace 0.17 differs from this: it has "count 1, average 2, total 2" for stats, a blank
// behind the name of a histogram, and an empty line after stats.
func Print[K, V any](w io.Writer, name string, s Snapshot[K, V], opts *PrintOptions[K]) error {
	p := newPrinter[K, V](opts)
	var rows []Row
	for _, e := range p.order(s) {
		r := Row{Value: e.Value}
		if !p.scalar {
			r.Key = p.key(e.Key, textStyle)
		}
		rows = append(rows, r)
	}
	return printRows(w, name, rows, &RowOptions{Div: p.div, Scalar: p.scalar})
}

// PrintJSON writes a snapshot as one line of JSON, as bpftrace 0.26 prints a map
// with -f json: {"type": "map", "data": {"@x": {"key": value}}}, with the order
// and the values of Print; the type is "hist" for histograms and "stats" for
// Average and Totals. It writes nothing for an empty snapshot.
func PrintJSON[K, V any](w io.Writer, name string, s Snapshot[K, V], opts *PrintOptions[K]) error {
	p := newPrinter[K, V](opts)
	var rows []Row
	for _, e := range p.order(s) {
		r := Row{Value: e.Value}
		if !p.scalar {
			r.Key = p.key(e.Key, keyStyle)
		}
		rows = append(rows, r)
	}
	return printRowsJSON(w, name, rows, &RowOptions{Div: p.div, Scalar: p.scalar})
}

func jsonType(v any) string {
	switch v.(type) {
	case hist.Distribution:
		return "hist"
	case *hist.Series:
		return "tseries"
	case Average, Totals:
		return "stats"
	}
	return "map"
}

// quote returns s as a JSON string, without escapes for HTML.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

type printer[K, V any] struct {
	PrintOptions[K]
	div    int64
	scalar bool
}

func newPrinter[K, V any](opts *PrintOptions[K]) *printer[K, V] {
	p := &printer[K, V]{}
	if opts != nil {
		p.PrintOptions = *opts
	}
	p.div = max(p.Div, 1)
	t := reflect.TypeFor[K]()
	p.scalar = p.Scalar || t.Kind() == reflect.Struct && t.NumField() == 0
	return p
}

func (p *printer[K, V]) key(k K, s style) string {
	if p.Key != nil {
		return p.Key(k)
	}
	// A key omits a tuple's parentheses.
	text := appendText(nil, reflect.ValueOf(&k).Elem(), s)
	if len(text) >= 2 && text[0] == '(' && text[len(text)-1] == ')' {
		text = text[1 : len(text)-1]
	}
	return string(text)
}

// order returns the entries to print.
func (p *printer[K, V]) order(s Snapshot[K, V]) []Entry[K, V] {
	entries := slices.Clone(s.Entries)
	byKey := false
	slices.SortStableFunc(entries, func(a, b Entry[K, V]) int {
		c, ok := compareValues(any(a.Value), any(b.Value))
		byKey = byKey || !ok
		return c
	})
	if byKey {
		slices.SortStableFunc(entries, func(a, b Entry[K, V]) int {
			return compareFields(reflect.ValueOf(&a.Key).Elem(), reflect.ValueOf(&b.Key).Elem())
		})
	}
	if p.Top > 0 && len(entries) > p.Top {
		entries = entries[len(entries)-p.Top:]
	}
	return entries
}

// compareValues compares values that bpftrace sorts by. It returns false for others.
func compareValues(a, b any) (int, bool) {
	switch a := a.(type) {
	case Average:
		return cmp.Compare(a.Mean(), b.(Average).Mean()), true
	case Totals:
		return cmp.Compare(a.Mean(), b.(Totals).Mean()), true
	case Extreme:
		return cmp.Compare(a.Value, b.(Extreme).Value), true
	case hist.Distribution:
		if b, ok := b.(hist.Distribution); ok {
			return cmp.Compare(a.Count(), b.Count()), true
		}
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.CanInt():
		return cmp.Compare(x.Int(), y.Int()), true
	case x.CanUint():
		return cmp.Compare(x.Uint(), y.Uint()), true
	case x.CanFloat():
		return cmp.Compare(x.Float(), y.Float()), true
	}
	return 0, false
}

// compareFields compares keys field by field, the first one first.
func compareFields(a, b reflect.Value) int {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	case a.Kind() == reflect.Array:
		for i := range a.Len() {
			if c := compareFields(a.Index(i), b.Index(i)); c != 0 {
				return c
			}
		}
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if c := compareFields(a.Field(i), b.Field(i)); c != 0 {
				return c
			}
		}
	}
	return 0
}

// divided applies a divisor to the values that can be divided. The total and count of Totals stay,
// as in bpftrace.
func divided(v any, div int64) reflect.Value {
	switch v := v.(type) {
	case Average:
		return reflect.ValueOf(v.Mean() / div)
	case Totals:
		return reflect.ValueOf(named{
			{"count", v.Count},
			{"average", v.Mean() / div},
			{"total", v.Total},
		})
	case Extreme:
		return reflect.ValueOf(v.Value / div)
	}
	was := reflect.ValueOf(v)
	if _, ok := v.(fmt.Stringer); ok || div == 1 {
		return was
	}
	r := reflect.New(was.Type()).Elem()
	switch {
	case r.CanInt():
		r.SetInt(was.Int() / div)
	case r.CanUint():
		r.SetUint(was.Uint() / uint64(div))
	case r.CanFloat():
		r.SetFloat(was.Float() / float64(div))
	default:
		return was
	}
	return r
}

// named is a value with named fields.
type named []struct {
	name  string
	value any
}

type style int

const (
	textStyle style = iota
	jsonStyle
	keyStyle // text of a key in JSON: no blanks between the parts of a tuple
)

// appendText appends a value in bpftrace's form.
func appendText(b []byte, v reflect.Value, s style) []byte {
	if v.CanInterface() {
		x := v.Interface()
		if x, ok := x.(jsonAppender); ok && s == jsonStyle {
			return x.AppendJSON(b)
		}
		switch x := x.(type) {
		case named:
			return appendRecord(b, x, s)
		case fmt.Stringer:
			return appendString(b, x.String(), s)
		}
	}
	switch {
	case v.CanInt():
		return appendNumber(b, strconv.FormatInt(v.Int(), 10), exactInt(v.Int()), s)
	case v.CanUint():
		return appendNumber(b, strconv.FormatUint(v.Uint(), 10), exactUint(v.Uint()), s)
	case v.CanFloat():
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.String:
		return appendString(b, v.String(), s)
	case reflect.Array, reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Uint8 || k == reflect.Int8 {
			return appendString(b, cString(v), s)
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, v.Index(i), s)
		}
		return append(b, ']')
	case reflect.Struct:
		return appendTuple(b, v, s)
	}
	return fmt.Appendf(b, "%v", v)
}

func appendTuple(b []byte, v reflect.Value, s style) []byte {
	open, sep, end := "(", ", ", ")"
	switch s {
	case jsonStyle:
		open, sep, end = "[", ",", "]"
	case keyStyle:
		sep = ","
	}
	b = append(b, open...)
	first := true
	for i := range v.NumField() {
		if v.Type().Field(i).Name == "_" {
			continue // padding
		}
		if !first {
			b = append(b, sep...)
		}
		first = false
		b = appendText(b, v.Field(i), s)
	}
	return append(b, end...)
}

func appendRecord(b []byte, r named, s style) []byte {
	if s != jsonStyle {
		b = append(b, "{ "...)
	} else {
		b = append(b, '{')
	}
	for i, f := range r {
		if i > 0 {
			b = append(b, ", "...)
		}
		if s != jsonStyle {
			b = append(append(b, '.'), f.name+" = "...)
		} else {
			b = append(append(b, quote(f.name)...), ": "...)
		}
		b = appendText(b, reflect.ValueOf(f.value), s)
	}
	if s != jsonStyle {
		b = append(b, ' ')
	}
	return append(b, '}')
}

func appendString(b []byte, text string, s style) []byte {
	if s == jsonStyle {
		return append(b, quote(text)...)
	}
	return append(b, text...)
}

// appendNumber appends a number. In JSON it quotes those that a float64 can't hold, as bpftrace
// does.
func appendNumber(b []byte, text string, exact bool, s style) []byte {
	if s == jsonStyle && !exact {
		return append(append(append(b, '"'), text...), '"')
	}
	return append(b, text...)
}

func exactInt(v int64) bool {
	f := float64(v)
	return f < 1<<63 && int64(f) == v
}

func exactUint(v uint64) bool {
	f := float64(v)
	return f < math.MaxUint64 && uint64(f) == v
}

// cString returns the bytes up to the first zero as text.
func cString(v reflect.Value) string {
	b := make([]byte, 0, v.Len())
	for i := range v.Len() {
		e := v.Index(i)
		c := byte(0)
		if e.CanInt() {
			c = byte(e.Int())
		} else {
			c = byte(e.Uint())
		}
		if c == 0 {
			break
		}
		b = append(b, c)
	}
	return string(b)
}
