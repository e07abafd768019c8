package mapx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/borescope/borescope/hist"
)

// ParseJSON reads the output of PrintJSON, or of bpftrace -f json, for the map of that name:
// the first line that has it. It is the inverse of PrintJSON as Parse is of Print. The error is
// io.EOF if no line has the map. opts may be nil.
func ParseJSON[K, V any](r io.Reader, name string, opts *ParseOptions[V]) (Snapshot[K, V], error) {
	p := valueParser[K, V]{}
	if opts != nil {
		p.opts = *opts
	}
	for dec := json.NewDecoder(r); ; {
		var line struct {
			Type string
			Data json.RawMessage
		}
		if err := dec.Decode(&line); err != nil {
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("%s: byte %d: %w", name, dec.InputOffset(), err)
			}
			return Snapshot[K, V]{}, err
		}
		var data map[string]json.RawMessage
		switch line.Type {
		case "map", "hist", "stats":
			if err := json.Unmarshal(line.Data, &data); err != nil {
				return Snapshot[K, V]{}, fmt.Errorf("%s: %w", name, err)
			}
		}
		if body, ok := data[name]; ok {
			s, err := p.jsonMap(body)
			if err != nil {
				return Snapshot[K, V]{}, fmt.Errorf("%s: %w", name, err)
			}
			return s, nil
		}
	}
}

// jsonMap parses the entries, in their order, or the single one without a key.
func (p *valueParser[K, V]) jsonMap(body json.RawMessage) (s Snapshot[K, V], err error) {
	if t := reflect.TypeFor[K](); t.Kind() == reflect.Struct && t.NumField() == 0 {
		s.Entries = make([]Entry[K, V], 1)
		return s, p.jsonValue(&s.Entries[0].Value, body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return s, fmt.Errorf("%.40s: not entries by key", body)
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return s, err
		}
		var e Entry[K, V]
		key, k := token.(string), reflect.ValueOf(&e.Key).Elem()
		if k.Kind() == reflect.Struct {
			key = "(" + key + ")"
		}
		var raw json.RawMessage
		if err := errors.Join(parseValue(k, key, ","), dec.Decode(&raw),
			p.jsonValue(&e.Value, raw)); err != nil {
			return s, fmt.Errorf("key %q: %w", token, err)
		}
		s.Entries = append(s.Entries, e)
	}
	return s, nil
}

func (p *valueParser[K, V]) jsonValue(to *V, raw json.RawMessage) (err error) {
	unquoted := strings.Trim(string(raw), `"`)
	switch v := any(to).(type) {
	case *Average:
		*v, err = parseMean(unquoted)
		return err
	case *Totals:
		var m struct{ Count, Total jsonInt }
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		v.Total, v.Count = int64(m.Total), uint64(m.Count)
		return nil
	case *Extreme:
		v.Set = 1
		v.Value, err = parseInt(unquoted)
		return err
	}
	if p.isHist() {
		buckets, err := hist.ParseJSON(raw)
		if err == nil {
			*to, err = p.histogram(buckets)
		}
		return err
	}
	return parseJSONValue(reflect.ValueOf(to).Elem(), raw)
}

// jsonInt is a JSON number, or a string if a float64 can't hold it.
type jsonInt int64

// UnmarshalJSON parses either form.
func (n *jsonInt) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var u uint64
		u, err = strconv.ParseUint(text, 10, 64)
		v = int64(u)
	}
	*n = jsonInt(v)
	return notScalar(text, reflect.TypeFor[int64](), err)
}

func parseJSONValue(v reflect.Value, raw json.RawMessage) error {
	switch {
	case isText(v.Type()):
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		return setText(v, text)
	case v.Kind() == reflect.Array || v.Kind() == reflect.Slice || v.Kind() == reflect.Struct:
		var parts []json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil {
			return err
		}
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), len(parts), len(parts)))
		}
		to := []reflect.Value(nil)
		if v.Kind() == reflect.Struct {
			to = fieldsOf(v)
		} else {
			to = elements(v)
		}
		if len(parts) != len(to) {
			return fmt.Errorf("%d parts, not %d", len(parts), len(to))
		}
		for i := range to {
			if err := parseJSONValue(to[i], parts[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !v.CanSet() {
		return fmt.Errorf("%v: a field that is not exported", v.Type())
	}
	return setScalar(v, strings.Trim(string(raw), `"`))
}
