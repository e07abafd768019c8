package tool

import "cmp"

// Seconds returns the time of an event, given by Ctx.Nsecs, in seconds since the first event
// for which it was called. It is negative for an earlier event: the events of several CPUs
// are only almost in order.
func (r *Run) Seconds(nsecs uint64) float64 {
	r.first = cmp.Or(r.first, nsecs)
	return float64(int64(nsecs-r.first)) / 1e9
}
