package bpfprom

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

var (
	stringer = reflect.TypeFor[fmt.Stringer]()
	irValue  = reflect.TypeFor[bpf.Value]()
)

// labelNames returns the names of the labels for keys of a type, and whether the type tells how many
// parts they have.
func labelNames(t reflect.Type) (names []string, known bool) {
	switch {
	case t.Kind() == reflect.Interface || t == irValue:
		return []string{"key"}, false
	case t.Kind() == reflect.Struct && !t.Implements(stringer):
		for f := range t.Fields() {
			if f.IsExported() {
				names = append(names, snake(f.Name))
			}
		}
		return names, true
	}
	return []string{"key"}, true
}

// snake returns a Go name as metrics spell it: RemotePort is remote_port, PID pid.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		starts := unicode.IsUpper(r) && i > 0 &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// keyParts appends the texts of the parts of a key: the exported fields of a struct, the elements of
// a script's tuple or record (package output of probe/script) or of a bpf.Value that is a tuple, else
// the key itself. struct{} has none.
func keyParts(dst []string, key any) []string {
	if v, ok := key.(bpf.Value); ok {
		if v.Type.Kind != ir.KindTuple {
			return append(dst, text(v))
		}
		for i := range v.Type.Fields {
			dst = append(dst, text(v.Elem(i)))
		}
		return dst
	}
	v := reflect.ValueOf(key)
	if !v.IsValid() { // a script's map without keys
		return dst
	}
	if _, ok := key.(fmt.Stringer); !ok && v.Kind() == reflect.Struct {
		for f, field := range v.Fields() {
			if f.IsExported() {
				dst = append(dst, text(field.Interface()))
			}
		}
		return dst
	}
	if v.Kind() != reflect.Slice {
		return append(dst, text(key))
	}
	switch elem := v.Type().Elem(); {
	case elem.Kind() == reflect.Interface: // output.Tuple
		for _, e := range v.Seq2() {
			dst = append(dst, text(e.Interface()))
		}
	case elem.Kind() == reflect.Struct: // output.Record
		for _, e := range v.Seq2() {
			dst = append(dst, text(e.FieldByName("Value").Interface()))
		}
	default:
		dst = append(dst, text(key))
	}
	return dst
}

// text returns one part of a key as text.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case fmt.Stringer:
		return v.String()
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(r.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(r.Uint(), 10)
	case reflect.Array: // of bytes: a text up to its first NUL
		if r.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, r.Len())
			reflect.Copy(reflect.ValueOf(b), r)
			s, _, _ := strings.Cut(string(b), "\x00")
			return s
		}
	}
	return fmt.Sprint(v)
}

// labelValue returns a text as the value of a label: valid UTF-8, with a '?' for each character that a
// terminal acts on, of at most most bytes. One that was cut ends with "…" if there is room.
func labelValue(s string, most int) string {
	s = strings.ToValidUTF8(escape.Terminal(s), string(utf8.RuneError))
	if len(s) <= most {
		return s
	}
	const mark = "…"
	end := most
	if most >= len(mark) {
		end -= len(mark)
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if most < len(mark) {
		return s[:end]
	}
	return s[:end] + mark
}
