package mapx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx/internal/layout"
)

// ParseOptions are the options of Parse and ParseJSON. The zero value is for everything except
// linear histograms.
type ParseOptions[V any] struct {
	// New returns the histogram to which an entry's rows are added. Without it a *hist.Log2
	// gets the smallest k that fits its buckets. A *hist.Linear needs New, because its rows
	// do not have its range.
	New func() (V, error)
}

// Parse reads the output of Print, or of bpftrace, for the map of that name, and skips
// lines of other maps. It is the inverse of Print: printing gives the same text again.
// Entries come in the printed order, an Average is its mean counted once, and values that
// Print divided stay divided. K and V are as for Print, but without text of their own
// (String methods, PrintOptions.Key).
//
// bpftrace's text has no quotes. A string that contains the separators of keys (", ", "]:
// ") or of lines may be an error, or another string. opts may be nil.
func Parse[K, V any](r io.Reader, name string, opts *ParseOptions[V]) (Snapshot[K, V], error) {
	p := valueParser[K, V]{}
	if opts != nil {
		p.opts = *opts
	}
	var s Snapshot[K, V]
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, layout.MaxRecord)
	n := 0
	for lines.Scan() {
		n++
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != '[' && rest[0] != ':' {
			continue
		}
		key, value, err := splitEntry(rest, p.text())
		at := n
		if err == nil && p.isHist() {
			if value != "" {
				err = errors.New("not a histogram")
			}
			var rows strings.Builder
			for err == nil && lines.Scan() && lines.Text() != "" {
				n++
				rows.WriteString(lines.Text() + "\n")
			}
			n++
			value = rows.String()
		}
		var e Entry[K, V]
		if err == nil {
			err = p.entry(&e, key, value)
		}
		if err != nil {
			return Snapshot[K, V]{}, fmt.Errorf("%s:%d: %w", name, at, err)
		}
		s.Entries = append(s.Entries, e)
	}
	return s, lines.Err()
}

// splitEntry splits "[key]: value" or ": value". text is set if the value may be a string. In
// front of a histogram the blank is missing, or the last byte.
func splitEntry(rest string, text bool) (key, value string, err error) {
	end := 0
	if rest[0] == '[' {
		if end = strings.Index(rest, "]: "); !text || end < 0 {
			end = max(strings.LastIndex(rest, "]: "), 0)
		}
		if end == 0 && strings.HasSuffix(rest, "]:") {
			end = len(rest) - 2
		}
		if end == 0 {
			return "", "", errors.New("a key without an end")
		}
		key = rest[1:end]
		end++
	}
	value = rest[end+1:]
	if strings.TrimSpace(value) == "" {
		return key, "", nil
	}
	return key, strings.TrimPrefix(value, " "), nil
}

// valueParser parses the text of one key and value.
type valueParser[K, V any] struct{ opts ParseOptions[V] }

func (p *valueParser[K, V]) isHist() bool {
	return reflect.TypeFor[V]().Implements(reflect.TypeFor[hist.Distribution]())
}

// text reports whether a value prints as a string.
func (p *valueParser[K, V]) text() bool { return isText(reflect.TypeFor[V]()) }

// isText reports whether values of a type print as strings.
func isText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Array, reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8 || t.Elem().Kind() == reflect.Int8
	}
	return false
}

func (p *valueParser[K, V]) entry(e *Entry[K, V], key, value string) error {
	k := reflect.ValueOf(&e.Key).Elem()
	if k.Kind() == reflect.Struct {
		key = "(" + key + ")"
	}
	if err := parseValue(k, key, ", "); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	v := reflect.ValueOf(&e.Value).Elem()
	var err error
	switch to := any(&e.Value).(type) {
	case *Average:
		*to, err = parseMean(value)
	case *Totals:
		_, err = fmt.Sscanf(value+"\n", "{ .count = %d, .average = %d, .total = %d }\n", &to.Count,
			new(int64), &to.Total)
	case *Extreme:
		to.Set = 1
		to.Value, err = parseInt(value)
	default:
		if p.isHist() {
			var buckets []hist.Bucket
			if buckets, err = hist.ParseText(value); err == nil {
				e.Value, err = p.histogram(buckets)
			}
			break
		}
		err = parseValue(v, value, ", ")
	}
	return err
}

func parseMean(text string) (a Average, err error) {
	a.Total, err = parseInt(text)
	a.Count = 1
	return a, err
}

// histogram returns a V of the buckets.
func (p *valueParser[K, V]) histogram(buckets []hist.Bucket) (v V, err error) {
	if p.opts.New == nil {
		to, ok := any(&v).(**hist.Log2)
		if !ok {
			return v, fmt.Errorf("a %T needs ParseOptions.New", v)
		}
		*to, err = hist.Log2Of(buckets)
		return v, err
	}
	if v, err = p.opts.New(); err != nil {
		return v, err
	}
	to, ok := any(v).(interface{ AddBuckets([]hist.Bucket) error })
	if !ok {
		return v, fmt.Errorf("a %T takes no buckets", v)
	}
	return v, to.AddBuckets(buckets)
}

// parseValue parses the output of appendText; sep separates the fields of a tuple.
func parseValue(v reflect.Value, text, sep string) error {
	t := v.Type()
	switch {
	case isText(t):
		return setText(v, text)
	case v.Kind() == reflect.Array || v.Kind() == reflect.Slice:
		inner, ok := between(text, "[", "]")
		if !ok {
			return fmt.Errorf("%q is not an array", text)
		}
		if v.Kind() == reflect.Slice {
			n := len(splitParts(inner, ","))
			v.Set(reflect.MakeSlice(t, n, n))
		}
		return parseParts(elements(v), inner, ",")
	case v.Kind() == reflect.Struct:
		inner, ok := between(text, "(", ")")
		if !ok {
			return fmt.Errorf("%q is not a tuple", text)
		}
		return parseParts(fieldsOf(v), inner, sep)
	}
	if !v.CanSet() {
		return fmt.Errorf("%v: a field that is not exported", t)
	}
	return setScalar(v, text)
}

func setScalar(v reflect.Value, text string) (err error) {
	bits := v.Type().Bits
	switch {
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, bits())
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, bits())
		v.SetUint(n)
	case v.CanFloat():
		var f float64
		f, err = strconv.ParseFloat(text, bits())
		v.SetFloat(f)
	case v.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	default:
		return fmt.Errorf("%v can't be read from text", v.Type())
	}
	return notScalar(text, v.Type(), err)
}

func parseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, notScalar(text, reflect.TypeFor[int64](), err)
}

// notScalar returns the error for a text that is not a value of type t, without strconv's name.
func notScalar(text string, t reflect.Type, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%.40q does not fit %v", text, t)
	}
	return fmt.Errorf("%.40q is not a valid %v", text, t)
}

func setText(v reflect.Value, text string) error {
	switch {
	case !v.CanSet():
		return fmt.Errorf("%v: a field that is not exported", v.Type())
	case v.Kind() == reflect.String:
		v.SetString(text)
		return nil
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(text), len(text)))
	case len(text) > v.Len():
		return fmt.Errorf("%q does not fit %d bytes", text, v.Len())
	}
	if strings.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("%q has a zero byte", text)
	}
	for i := range len(text) {
		if e := v.Index(i); e.CanInt() {
			e.SetInt(int64(int8(text[i])))
		} else {
			e.SetUint(uint64(text[i]))
		}
	}
	return nil
}

func between(text, open, end string) (string, bool) {
	text, ok1 := strings.CutPrefix(text, open)
	text, ok2 := strings.CutSuffix(text, end)
	return text, ok1 && ok2
}

func elements(v reflect.Value) (out []reflect.Value) {
	for i := range v.Len() {
		out = append(out, v.Index(i))
	}
	return out
}

// fieldsOf returns the fields that are printed, without the padding.
func fieldsOf(v reflect.Value) (out []reflect.Value) {
	for i := range v.NumField() {
		if v.Type().Field(i).Name != "_" {
			out = append(out, v.Field(i))
		}
	}
	return out
}

// parseParts parses a list. Separators in brackets and parentheses don't count. If there are
// too many, and one field is a string, they are the string's.
func parseParts(to []reflect.Value, text, sep string) error {
	parts := splitParts(text, sep)
	if extra := len(parts) - len(to); extra > 0 {
		at := -1
		for i, v := range to {
			switch {
			case isText(v.Type()) && at < 0:
				at = i
			case isText(v.Type()):
				return fmt.Errorf("%q has more than %d parts, and several are strings", text, len(to))
			}
		}
		if at >= 0 {
			whole := strings.Join(parts[at:at+extra+1], sep)
			parts = append(append(append([]string{}, parts[:at]...), whole), parts[at+extra+1:]...)
		}
	}
	if len(parts) != len(to) {
		return fmt.Errorf("%q has %d parts, not %d", text, len(parts), len(to))
	}
	for i, v := range to {
		if err := parseValue(v, parts[i], sep); err != nil {
			return err
		}
	}
	return nil
}

func splitParts(text, sep string) []string {
	var parts []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], sep):
			parts = append(parts, text[from:i])
			from = i + len(sep)
			i = from - 1
		}
	}
	if from > 0 || text != "" {
		parts = append(parts, text[from:])
	}
	return parts
}
