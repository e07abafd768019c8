package hist

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// bpftraceIndex is the rule as its documentation words it, in the plainest form:
// which bucket, by looking for it.
func bpftraceIndex(v int64, k int) int {
	if v < 0 {
		return 0
	}
	index, lo, width := 1, int64(0), int64(1)
	for {
		for range 1 << k { // the first power has 2^k buckets of one value
			if v-lo < width {
				return index
			}
			lo += width
			index++
		}
		if lo > 1<<k {
			width *= 2
		} else if lo == 1<<k {
			width = 1 // and so has the second
		}
	}
}

func TestLog2Index(t *testing.T) {
	for k := range MaxK + 1 {
		for v := int64(-2); v < 5000; v++ {
			if got, want := Log2Index(v, k), bpftraceIndex(v, k); got != want {
				t.Fatalf("k %d value %d: bucket %d, want %d", k, v, got, want)
			}
		}
		size := Log2Size(k)
		_, edge := Log2Bounds(0, k)
		for i := 1; i < size; i++ {
			lo, hi := Log2Bounds(i, k)
			if lo != edge || hi <= lo {
				t.Fatalf("k %d bucket %d: [%d, %d) after %d", k, i, lo, hi, edge)
			}
			last := hi - 1
			if i == size-1 {
				last = math.MaxInt64
			}
			if Log2Index(lo, k) != i || Log2Index(last, k) != i {
				t.Fatalf("k %d bucket %d: [%d, %d) is not its own", k, i, lo, hi)
			}
			edge = hi
		}
		if edge != math.MaxInt64 || Log2Index(math.MinInt64, k) != 0 {
			t.Fatal(k, edge)
		}
	}
	if Log2Size(0) != 65 || Log2Size(5) != 1889 {
		t.Fatal(Log2Size(0), Log2Size(5))
	}
}

func TestLinearIndex(t *testing.T) {
	for _, c := range []struct{ v, lo, hi, step, want int64 }{
		{-1, 0, 100, 10, 0},
		{0, 0, 100, 10, 1},
		{9, 0, 100, 10, 1},
		{10, 0, 100, 10, 2},
		{99, 0, 100, 10, 10},
		{100, 0, 100, 10, 11},
		{101, 0, 100, 10, 11},
		{math.MaxInt64, 0, 100, 10, 11},
		{9, 0, 10, 3, 4},
		{10, 0, 10, 3, 4},
		{8, 0, 10, 3, 3},
		{math.MinInt64, 0, 10, 3, 0},
		{-15, -20, 20, 10, 1},
		{math.MaxInt64, math.MinInt64, math.MaxInt64, 1 << 60, 16},
	} {
		if got := LinearIndex(c.v, c.lo, c.hi, c.step); got != int(c.want) {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for _, bad := range [][3]int64{{0, 0, 1}, {5, 1, 1}, {0, 10, 0}, {0, 10, -1}, {0, 1 << 40, 1}, {math.MinInt64, math.MaxInt64, 1}} {
		if _, err := NewLinear(bad[0], bad[1], bad[2]); err == nil {
			t.Error(bad)
		}
	}
}

// distributions are twenty shapes of latencies and sizes.
func distributions() map[string]func(*rand.Rand) int64 {
	out := map[string]func(*rand.Rand) int64{
		"constant": func(*rand.Rand) int64 { return 777777 },
		"two":      func(r *rand.Rand) int64 { return []int64{1000, 1000000}[r.IntN(2)] },
		"bimodal": func(r *rand.Rand) int64 {
			if r.IntN(10) == 0 {
				return int64(5e6 + 1e6*r.NormFloat64())
			}
			return int64(1e5 + 1e4*r.NormFloat64())
		},
		"outliers": func(r *rand.Rand) int64 {
			if r.IntN(1000) == 0 {
				return 1e9
			}
			return 1000 + r.Int64N(100)
		},
		"pareto": func(r *rand.Rand) int64 { return int64(1000 / math.Pow(1-r.Float64(), 0.7)) },
	}
	for _, n := range []int64{100, 1e4, 1e6, 1e9, 1e15} {
		out[fmt.Sprint("uniform", n)] = func(r *rand.Rand) int64 { return r.Int64N(n) }
		out[fmt.Sprint("exponential", n)] = func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * float64(n)) }
		out[fmt.Sprint("lognormal", n)] = func(r *rand.Rand) int64 { return int64(math.Exp(r.NormFloat64()*1.5) * float64(n)) }
	}
	return out
}

func TestQuantileBounds(t *testing.T) {
	if n := len(distributions()); n != 20 {
		t.Fatal(n, "distributions")
	}
	for name, draw := range distributions() {
		r := rand.New(rand.NewPCG(1, 2))
		values := make([]int64, 20000)
		for i := range values {
			values[i] = draw(r)
		}
		for k := range MaxK + 1 {
			h, tracked := log2(t, k, values...), log2(t, k).Track()
			for _, v := range values {
				tracked.Add(v)
			}
			sorted := slices.Sorted(slices.Values(values))
			bound := 1 / float64(int(2)<<k)
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
				truth := sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
				for _, h := range []*Log2{h, tracked} {
					got, err := h.Quantile(q)
					if err != nil || truth < got.Min || truth > got.Max {
						t.Fatalf("%s k %d q %v: %+v %v, true %d", name, k, q, got, err, truth)
					}
					if e := math.Abs(got.Value-float64(truth)) / max(float64(truth), 1); e > bound*1.0001 {
						t.Errorf("%s k %d q %v: %v, true %d, error %.4f", name, k, q, got.Value, truth, e)
					}
				}
			}
			sum := 0.0
			for _, v := range values {
				sum += float64(v)
			}
			mean := sum / float64(len(values))
			if got := tracked.Mean(); math.Abs(got-mean) > 1e-9*math.Abs(mean) {
				t.Errorf("%s: exact mean %v, want %v", name, got, mean)
			}
			if got := h.Mean(); math.Abs(got-mean) > bound*mean+1 {
				t.Errorf("%s k %d: estimated mean %v, want %v", name, k, got, mean)
			}
			if lo, hi, ok := tracked.Range(); !ok || lo != sorted[0] || hi != sorted[len(sorted)-1] {
				t.Error(name, lo, hi, ok)
			}
		}
	}
}

func TestQuantileErrors(t *testing.T) {
	h := log2(t, 0)
	if _, err := h.Quantile(0.5); err == nil {
		t.Error("a quantile of nothing")
	}
	h.Add(5)
	for _, q := range []float64{-0.1, 1.1, math.NaN()} {
		if _, err := h.Quantile(q); err == nil {
			t.Error(q)
		}
	}
	h.AddN(-9, 1<<63)
	if q, err := h.Quantile(0.5); err != nil || q.Min != math.MinInt64 || q.Max != -1 {
		t.Errorf("%+v %v", q, err)
	}
	if !math.IsNaN(h.Mean()) {
		t.Error("a mean of negative values of unknown size:", h.Mean())
	}
	l := linear(t, 0, 10, 3, 100)
	if q, err := l.Quantile(0.5); err != nil || q.Min != 9 || q.Max != math.MaxInt64 {
		t.Errorf("%+v %v", q, err)
	}
	exact := linear(t, 0, 10, 3).Track()
	exact.Add(100)
	exact.Add(-100)
	if q, err := exact.Quantile(1); err != nil || q.Max != 100 || exact.Mean() != 0 {
		t.Errorf("%+v %v %v", q, err, exact.Mean())
	}
}

func TestMeanOfLargeValues(t *testing.T) {
	h := log2(t, 0).Track()
	h.AddN(math.MaxInt64, 1000)
	h.AddN(math.MinInt64, 1000)
	if got := h.Mean(); got != -0.5 {
		t.Error(got)
	}
	h.AddN(math.MinInt64, 1e6)
	if got, want := h.Mean(), float64(math.MinInt64); math.Abs(got-want) > 0.01*-want {
		t.Error(got)
	}
}

func TestMergeSubFold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var values []int64
	for range 5000 {
		values = append(values, int64(math.Exp(r.NormFloat64()*5+8))-3)
	}
	for k := range MaxK + 1 {
		a, b := log2(t, k, values[:2000]...), log2(t, k, values[2000:]...)
		all := log2(t, k, values...)
		sum := a.Clone()
		if err := sum.Merge(b); err != nil {
			t.Fatal(err)
		}
		if sum.String() != all.String() || sum.Count() != 5000 {
			t.Error(k, "merge")
		}
		if err := sum.Sub(a); err != nil || sum.String() != b.String() {
			t.Error(k, "subtract", err)
		}
		for to := range k + 1 {
			if got, want := all.Fold(to).String(), log2(t, to, values...).String(); got != want {
				t.Errorf("fold %d to %d:\n%s", k, to, got)
			}
		}
		if k > 0 {
			coarse := log2(t, 0, values[:2000]...)
			if err := coarse.Merge(b); err != nil || coarse.String() != log2(t, 0, values...).String() {
				t.Error(k, "merge into k 0", err)
			}
			if err := b.Merge(log2(t, 0, 1)); !errors.Is(err, ErrMismatch) {
				t.Error(err)
			}
		}
	}
	h := log2(t, 0, 5, 5) // a counter that was reset: 2 now, 7 before
	old := log2(t, 0)
	old.AddN(5, 7)
	if err := h.Sub(old); err != nil || h.Count() != 2 {
		t.Error(h, err)
	}
	x, y := linear(t, 0, 100, 10, 5, 7), linear(t, 0, 100, 10, 7, 500)
	if err := x.Merge(y); err != nil || x.Count() != 4 {
		t.Error(err)
	}
	if err := x.Sub(y); err != nil || x.String() != linear(t, 0, 100, 10, 5, 7).String() {
		t.Error(err)
	}
	if err := x.Merge(linear(t, 0, 100, 5)); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	tracked := log2(t, 0, 1).Track()
	if tracked.AddBucket(3, 1); tracked.m.n == tracked.Count() {
		t.Error("counts without values have no exact mean")
	}
}

// TestMergeMany: any number of histograms of any length at once are the sum of
// all, whatever the groups that they are added in.
func TestMergeMany(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		want, got := log2(t, 5).Track(), log2(t, 5).Track()
		parts := make([]*Log2, n)
		for i := range parts {
			parts[i] = log2(t, 5).Track()
			for range r.IntN(50) {
				v := int64(r.Uint64() >> r.IntN(64))
				parts[i].Add(v)
				want.Add(v)
			}
		}
		if err := got.Merge(parts...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Buckets(), want.Buckets()) || got.m != want.m {
			t.Fatalf("%d histograms:\n%v\nwant\n%v", n, got.Buckets(), want.Buckets())
		}
		coarse := log2(t, 0)
		if err := coarse.Merge(parts...); err != nil || !slices.Equal(coarse.Buckets(), want.Fold(0).Buckets()) {
			t.Fatal(coarse.Buckets(), err)
		}
		if err := got.Merge(append(parts, coarse)...); !errors.Is(err, ErrMismatch) || !slices.Equal(got.Buckets(), want.Buckets()) {
			t.Fatal(err)
		}
	}
}

func TestAtomicLog2(t *testing.T) {
	h, err := NewAtomicLog2(3)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	for g := range 4 {
		go func() {
			for i := range 10000 {
				h.Add(int64(i * g))
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
	want := log2(t, 3)
	for g := range 4 {
		for i := range 10000 {
			want.Add(int64(i * g))
		}
	}
	if h.Snapshot().String() != want.String() {
		t.Error("counts differ")
	}
}

func TestZeroValue(t *testing.T) {
	var h Log2
	if h.String() != "" || h.Count() != 0 || h.Buckets() != nil {
		t.Error(h.String())
	}
	h.Add(3)
	if h.Count() != 1 || h.K() != 0 {
		t.Error(h.Count())
	}
	if _, err := NewLog2(6); err == nil {
		t.Error("k 6")
	}
	if _, err := NewAtomicLog2(-1); err == nil {
		t.Error("k -1")
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	h := log2(t, 5, math.MaxInt64).Track()
	l := linear(t, 0, 1000, 10)
	a, _ := NewAtomicLog2(5)
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() { v += 97; h.Add(v); l.Add(v); a.Add(v) }); n != 0 {
		t.Error(n)
	}
}

func TestCSV(t *testing.T) {
	var b strings.Builder
	if err := WriteCSV(&b, linear(t, 0, 10, 5, -1, 3, 50)); err != nil || b.String() != "lo,hi,count\n,0,1\n0,5,1\n5,10,0\n10,,1\n" {
		t.Errorf("%q %v", b.String(), err)
	}
}

// FuzzJSON: what is read back from any text is written as it was read.
func FuzzJSON(f *testing.F) {
	for _, h := range []any{log2(f, 0, 1, 5, -1), log2(f, 5, 1<<40).Track(), linear(f, -5, 50, 5, 7, 100)} {
		b, err := json.Marshal(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Log2
		if json.Unmarshal(b, &h) == nil {
			roundTrip(t, &h, new(Log2))
		}
		var l Linear
		if json.Unmarshal(b, &l) == nil {
			roundTrip(t, &l, new(Linear))
		}
	})
}

func roundTrip(t *testing.T, a, b interface {
	Distribution
	fmt.Stringer
	Mean() float64
},
) {
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() || a.Count() != b.Count() {
		t.Fatalf("%s\nand\n%s", a, b)
	}
	if x, y := a.Mean(), b.Mean(); x != y && !(math.IsNaN(x) && math.IsNaN(y)) {
		t.Fatal(x, y)
	}
}

func benchValues() []int64 {
	r := rand.New(rand.NewPCG(1, 1))
	values := make([]int64, 1<<16)
	for i := range values {
		values[i] = int64(math.Exp(r.NormFloat64()*1.5 + 10))
	}
	return values
}

func BenchmarkAdd(b *testing.B) {
	values := benchValues()
	for _, k := range []int{0, 5} {
		b.Run(fmt.Sprint("k", k), func(b *testing.B) {
			h := log2(b, k, values...)
			for i := range b.N {
				h.Add(values[i&(1<<16-1)])
			}
		})
		b.Run(fmt.Sprint("tracked/k", k), func(b *testing.B) {
			h := log2(b, k, values...).Track()
			for i := range b.N {
				h.Add(values[i&(1<<16-1)])
			}
		})
		b.Run(fmt.Sprint("atomic/k", k), func(b *testing.B) {
			h, _ := NewAtomicLog2(k)
			for i := range b.N {
				h.Add(values[i&(1<<16-1)])
			}
		})
	}
	b.Run("linear", func(b *testing.B) {
		h := linear(b, 0, 1000000, 1000)
		for i := range b.N {
			h.Add(values[i&(1<<16-1)])
		}
	})
}

// BenchmarkMerge64 merges 64 histograms as 64 CPUs would fill them.
func BenchmarkMerge64(b *testing.B) {
	for _, k := range []int{0, 5} {
		cpus := make([]*Log2, 64)
		for i := range cpus {
			cpus[i] = log2(b, k, benchValues()[i*1024:][:1024]...)
		}
		sum := log2(b, k, benchValues()...)
		b.Run(fmt.Sprint("k", k), func(b *testing.B) {
			for range b.N {
				if err := sum.Merge(cpus...); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("one_by_one/k", k), func(b *testing.B) {
			for range b.N {
				for _, h := range cpus {
					if err := sum.Merge(h); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func TestBucketLast(t *testing.T) {
	for _, b := range []struct {
		bucket Bucket
		want   int64
	}{
		{Bucket{Lo: 4, Hi: 8}, 7},
		{Bucket{Lo: math.MinInt64, Hi: 0}, -1},
		{Bucket{Lo: 8, Hi: math.MaxInt64}, math.MaxInt64},
	} {
		if got := b.bucket.Last(); got != b.want {
			t.Errorf("%+v: %d, want %d", b.bucket, got, b.want)
		}
	}
}
