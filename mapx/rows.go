package mapx

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/borescope/borescope/hist"
)

// Row is an entry of a map whose types are known at run time only, as of a script's.
type Row struct {
	// Key is the text of the key, without brackets. It is not printed for a scalar.
	Key string
	// Value is a value of a type that Print takes. If it has a method AppendJSON([]byte) []byte,
	// that appends its form in JSON.
	Value any
}

// RowOptions are the options of PrintRows and PrintRowsJSON. The zero value prints all rows
// unchanged.
type RowOptions struct {
	// Top prints only that many rows, those with the largest values; 0 prints all.
	Top int
	// Div divides values and the counts of histograms of powers of two; 0 is 1.
	Div int64
	// Scalar prints the value without a key: "@x: 5".
	Scalar bool
}

// PrintRows is Print for rows. Rows whose values are no numbers are printed in the order in which
// they are given. o may be nil.
func PrintRows(w io.Writer, name string, rows []Row, o *RowOptions) error {
	rows, opts := ordered(rows, o)
	return printRows(w, name, rows, &opts)
}

// PrintRowsJSON is PrintJSON for rows, as PrintRows is Print.
func PrintRowsJSON(w io.Writer, name string, rows []Row, o *RowOptions) error {
	rows, opts := ordered(rows, o)
	return printRowsJSON(w, name, rows, &opts)
}

// ordered returns the rows to print, ascending by value if all values are numbers.
func ordered(rows []Row, o *RowOptions) ([]Row, RowOptions) {
	opts := RowOptions{}
	if o != nil {
		opts = *o
	}
	opts.Div = max(opts.Div, 1)
	sorted, numbers := slices.Clone(rows), true
	slices.SortStableFunc(sorted, func(a, b Row) int {
		c, ok := compareValues(a.Value, b.Value)
		numbers = numbers && ok
		return c
	})
	if !numbers {
		sorted = rows
	}
	if opts.Top > 0 && len(sorted) > opts.Top {
		sorted = sorted[len(sorted)-opts.Top:]
	}
	return sorted, opts
}

// jsonAppender is a value with a form of its own in JSON.
type jsonAppender interface{ AppendJSON(b []byte) []byte }

func printRows(w io.Writer, name string, rows []Row, o *RowOptions) error {
	var b bytes.Buffer
	for _, r := range rows {
		label := name
		if !o.Scalar {
			label += "[" + r.Key + "]"
		}
		if d, ok := r.Value.(hist.Distribution); ok {
			if err := hist.Print(&b, label, d, &hist.TextOptions{Div: uint64(o.Div)}); err != nil {
				return err
			}
			continue
		}
		if s, ok := r.Value.(*hist.Series); ok {
			b.WriteString(label + ":\n" + s.Text(nil) + "\n")
			continue
		}
		b.WriteString(label + ": ")
		b.Write(appendText(nil, divided(r.Value, o.Div), textStyle))
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

func printRowsJSON(w io.Writer, name string, rows []Row, o *RowOptions) error {
	if len(rows) == 0 {
		return nil
	}
	b := fmt.Appendf(nil, `{"type": "%s", "data": {%s: `, jsonType(rows[0].Value), quote(name))
	if !o.Scalar {
		b = append(b, '{')
	}
	for i, r := range rows {
		if i > 0 {
			b = append(b, ", "...)
		}
		if !o.Scalar {
			b = append(append(b, quote(r.Key)...), ": "...)
		}
		if d, ok := r.Value.(hist.Distribution); ok {
			b = hist.AppendJSON(b, d, uint64(o.Div))
			continue
		}
		if s, ok := r.Value.(*hist.Series); ok {
			text, err := s.MarshalJSON()
			if err != nil {
				return err
			}
			b = append(b, text...)
			continue
		}
		b = appendText(b, divided(r.Value, o.Div), jsonStyle)
	}
	if !o.Scalar {
		b = append(b, '}')
	}
	_, err := w.Write(append(b, "}}\n"...))
	return err
}
