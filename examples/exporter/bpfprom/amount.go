package bpfprom

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/borescope/borescope/hist"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// shape is what a map's values are.
type shape uint8

const (
	noShape shape = iota
	number
	summary
	histogram
)

// amount is a value of a map, or what a series has of several. It is of one shape.
type amount struct {
	shape  shape
	signed bool
	n      uint64 // a number, or a summary's sum: in two's complement if signed
	count  uint64 // of a summary
	dist   distribution
}

// amountOf returns a value of a map. The amount shares its histogram.
func amountOf(v any, m *Metric) (amount, error) {
	switch v := v.(type) {
	case mapx.Average:
		return amount{shape: summary, signed: true, n: uint64(v.Total), count: v.Count}, nil
	case mapx.Totals:
		return amount{shape: summary, signed: true, n: uint64(v.Total), count: v.Count}, nil
	case bpf.Stat:
		return amount{shape: summary, signed: true, n: uint64(v.Sum), count: v.Count}, nil
	case []hist.Bucket:
		d := clone(m.buckets)
		if err := d.AddBuckets(v); err != nil {
			return amount{}, fmt.Errorf("%w than those of Metric.Buckets", err)
		}
		return amount{shape: histogram, dist: d}, nil
	case *hist.Log2:
		return amount{shape: histogram, dist: v}, nil
	case *hist.Linear:
		return amount{shape: histogram, dist: v}, nil
	case bpf.Value:
		if v.Type.Kind == ir.KindInt {
			return amount{shape: number, signed: v.Type.Signed, n: uint64(v.Int())}, nil
		}
		return amount{}, fmt.Errorf("a %v is not a number", v.Type)
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return amount{shape: number, signed: true, n: uint64(r.Int())}, nil
	case r.CanUint():
		return amount{shape: number, n: r.Uint()}, nil
	}
	return amount{}, fmt.Errorf("a %T is not a number, average or histogram", v)
}

// isHistogram reports whether the values of a type are histograms.
func isHistogram(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[hist.Distribution]()) || t == reflect.TypeFor[[]hist.Bucket]()
}

// exportable returns an error for a type whose values cannot be exported.
func exportable(t reflect.Type, m *Metric) error {
	if t.Kind() == reflect.Interface || t == irValue { // only its values tell
		return nil
	}
	_, err := amountOf(reflect.Zero(t).Interface(), m)
	return err
}

// float returns the number, or the sum.
func (a *amount) float() float64 {
	if a.signed {
		return float64(int64(a.n))
	}
	return float64(a.n)
}

// empty reports whether nothing is counted.
func (a *amount) empty() bool {
	if a.dist != nil {
		return a.dist.Count() == 0
	}
	return a.n == 0 && a.count == 0
}

// add adds another amount of the same shape, whose histogram it does not keep.
func (a *amount) add(b amount) error {
	if a.shape == noShape {
		*a = b
		if b.dist != nil {
			a.dist = clone(b.dist)
		}
		return nil
	}
	if a.shape != b.shape {
		return errors.New("values of several kinds")
	}
	a.n += b.n
	a.count += b.count
	if a.dist != nil {
		return a.dist.AddBuckets(b.dist.Buckets())
	}
	return nil
}

// since returns what was added since an earlier amount of the same entry. Where there is less than
// before the entry was cleared in between, and all of it is new.
func (a amount) since(before amount) (amount, error) {
	if a.shape != before.shape {
		return a, nil
	}
	d := a
	switch a.shape {
	case number:
		if a.float() >= before.float() {
			d.n -= before.n
		}
	case summary:
		if a.count >= before.count {
			d.n, d.count = a.n-before.n, a.count-before.count
		}
	case histogram:
		if a.dist.Count() < before.dist.Count() {
			break
		}
		d.dist = clone(a.dist)
		return d, sub(d.dist, before.dist)
	}
	return d, nil
}

// distribution is a *hist.Log2 or a *hist.Linear.
type distribution interface {
	hist.Distribution
	AddBuckets(buckets []hist.Bucket) error
}

// clone returns a copy of a histogram.
func clone(d distribution) distribution {
	if d, ok := d.(*hist.Linear); ok {
		return d.Clone()
	}
	return d.(*hist.Log2).Clone()
}

// sub subtracts an earlier state of a histogram.
func sub(d, before distribution) error {
	switch d := d.(type) {
	case *hist.Log2:
		if b, ok := before.(*hist.Log2); ok && b.K() == d.K() {
			return d.Sub(b)
		}
	case *hist.Linear:
		if b, ok := before.(*hist.Linear); ok {
			return d.Sub(b)
		}
	}
	return hist.ErrMismatch
}
