package ir

// The values of aggregating maps, of one CPU. Aggregations of several fields
// count updates before and behind them: a reader that copies from the low end
// finds done == begun only if no update was under way while it copied.
//
//	count, sum        u64
//	min, max          done, best
//	avg               done, sum, begun
//	stats             done, sum, min, max, begun
//
// best, min and max are kept as unsigned numbers that grow towards the extreme,
// so that zeros, which new entries hold, are below every value: see extreme.
const (
	AggDone  = 0
	AggFirst = 8
)
