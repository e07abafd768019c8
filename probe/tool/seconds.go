package tool

import "cmp"

// Seconds is the time of an event, by Ctx.Nsecs, in seconds since the first one of which it
// was asked. It is negative for one that was before that: the events of several CPUs come
// almost in order.
func (s *Session) Seconds(nsecs uint64) float64 {
	s.first = cmp.Or(s.first, nsecs)
	return float64(int64(nsecs-s.first)) / 1e9
}
