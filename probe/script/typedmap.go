package script

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/script/internal/lower"
	"github.com/borescope/borescope/probe/script/internal/printf"
	"github.com/borescope/borescope/probe/script/output"
	"github.com/borescope/borescope/probe/script/types"
)

// Map opens a map of a session with Go's types, which must be able to hold the script's: integers and
// pointers are integers of their width or more, and a bool a bool; what prints as text (strings,
// buffers, stacks, names) is a string; a tuple and a record are a struct with as many exported
// fields, in their order. Counts, sums and extremes are int64 or uint64, averages mapx.Average,
// stats() mapx.Totals, histograms hist.Distribution, and series *hist.Series. The zero-sized
// struct{} is the key of a map without keys. Any of them may be any. The error names the types.
//
//	opens, err := script.Map[string, uint64](session, "@opens")
//
// The table is for all goroutines until Session.Close; then it returns os.ErrClosed.
func Map[K comparable, V any](s *Session, name string) (mapx.Table[K, V], error) {
	m, err := s.find(name)
	if err != nil {
		return nil, err
	}
	key, value := reflect.TypeFor[K](), reflect.TypeFor[V]()
	if !m.Scalar {
		err = fits(m.Key, key)
	} else if key != reflect.TypeFor[struct{}]() && key != reflect.TypeFor[any]() {
		err = errors.New("it has no keys: use struct{}")
	}
	if err != nil {
		return nil, fmt.Errorf("key of %s: %w", name, err)
	}
	if err := fits(m.Value, value); err != nil {
		return nil, fmt.Errorf("value of %s: %w", name, err)
	}
	return &typedMap[K, V]{s, m}, nil
}

// typedMap is a map with Go's types.
type typedMap[K comparable, V any] struct {
	s *Session
	m *lower.Map
}

// Snapshot implements mapx.Table.
func (t *typedMap[K, V]) Snapshot() (mapx.Snapshot[K, V], error) { return t.read(false) }

// ReadAndClear implements mapx.Table. It loses nothing of an aggregation that the script clears.
func (t *typedMap[K, V]) ReadAndClear() (mapx.Snapshot[K, V], error) { return t.read(true) }

func (t *typedMap[K, V]) read(clear bool) (out mapx.Snapshot[K, V], err error) {
	list, err := t.s.read(t.m, clear)
	if err != nil {
		return out, err
	}
	out.Entries = make([]mapx.Entry[K, V], len(list))
	for i, e := range list {
		if !t.m.Scalar {
			assign(reflect.ValueOf(&out.Entries[i].Key).Elem(), e.Key)
		}
		assign(reflect.ValueOf(&out.Entries[i].Value).Elem(), e.Value)
	}
	return out, nil
}

// aggregates are the types of what aggregations are read as.
var aggregates = map[types.Kind]reflect.Type{
	types.Avg: reflect.TypeFor[mapx.Average](), types.Stats: reflect.TypeFor[mapx.Totals](),
	types.Hist: reflect.TypeFor[hist.Distribution](), types.Lhist: reflect.TypeFor[hist.Distribution](),
	types.Tseries: reflect.TypeFor[*hist.Series](),
}

// fits reports why a Go type cannot hold a type of the script.
func fits(t types.Type, to reflect.Type) error {
	if to == reflect.TypeFor[any]() {
		return nil
	}
	if of := aggregates[t.Kind]; of != nil {
		if to != of {
			return fmt.Errorf("a %s is a %s, not a %s", t, of, to)
		}
		return nil
	}
	kind := to.Kind()
	switch t.Kind {
	case types.Integer, types.Pointer, types.Count, types.Sum, types.Min, types.Max:
		if kind < reflect.Int || kind > reflect.Uintptr {
			if kind == reflect.String && t.Kind == types.Integer && hasName(t) {
				return nil
			}
			return fmt.Errorf("a %s is an integer, not a %s", t, to)
		}
		if uint64(to.Size()) < t.Size || t.Kind >= types.Count && to.Size() < 8 {
			return fmt.Errorf("a %s does not fit a %s", t, to)
		}
		return nil
	case types.Bool:
		if kind != reflect.Bool {
			return fmt.Errorf("a bool is not a %s", to)
		}
		return nil
	case types.Tuple, types.Record:
		if kind != reflect.Struct || to.NumField() != len(t.Fields) {
			return fmt.Errorf("a %s is a struct of %d fields, not a %s", t, len(t.Fields), to)
		}
		for i, f := range t.Fields {
			if !to.Field(i).IsExported() {
				return fmt.Errorf("the field %s of %s is not exported", to.Field(i).Name, to)
			}
			if err := fits(f.Type, to.Field(i).Type); err != nil {
				return err
			}
		}
		return nil
	}
	if kind != reflect.String {
		return fmt.Errorf("a %s is text, a string, not a %s", t, to)
	}
	return nil
}

// hasName reports whether an integer prints as a name.
func hasName(t types.Type) bool { return t.Mode != "" || t.Name != "" }

// assign gives a variable a decoded value, whose type fits.
func assign(to reflect.Value, v any) {
	n, _ := printf.Bits(v)
	switch kind := to.Kind(); {
	case kind == reflect.String:
		to.SetString(printf.Text(v))
	case kind >= reflect.Int && kind <= reflect.Int64:
		to.SetInt(int64(n))
	case kind >= reflect.Uint && kind <= reflect.Uintptr:
		to.SetUint(n)
	case kind == reflect.Struct && to.Type() != reflect.TypeOf(v):
		for i, part := range parts(v) {
			assign(to.Field(i), part)
		}
	case v != nil:
		to.Set(reflect.ValueOf(v))
	}
}

// parts returns the elements of a tuple or a record.
func parts(v any) []any {
	switch v := v.(type) {
	case output.Tuple:
		return v
	case output.Record:
		list := make([]any, len(v))
		for i, f := range v {
			list[i] = f.Value
		}
		return list
	}
	return nil
}
