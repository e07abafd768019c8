package testenv

import (
	"context"
	"slices"
	"testing"
)

// Ending is a context that ends as soon as this process holds certain BPF objects, for tests of
// what is cancelled on its way. It is for one goroutine.
type Ending struct {
	context.Context
	// Held are the objects that were held when it ended, without those before EndWhen.
	Held Objects

	cancel context.CancelFunc
	when   func(Objects) bool
	before Objects
}

// EndWhen returns a context that ends when it is asked for its error and when reports true of
// the objects that this process holds since this call. It ends with the test at the latest.
func EndWhen(t testing.TB, when func(Objects) bool) *Ending {
	c := &Ending{when: when, before: ObjectsOf(0)}
	c.Context, c.cancel = context.WithCancel(t.Context())
	t.Cleanup(c.cancel)
	return c
}

// Err implements context.Context.
func (c *Ending) Err() error {
	if c.Context.Err() == nil {
		if now := ObjectsOf(0).Without(c.before); c.when(now) {
			c.Held = now
			c.cancel()
		}
	}
	return c.Context.Err()
}

// Without returns the objects of o that are not in some, each once, in ascending order.
func (o Objects) Without(some Objects) Objects {
	minus := func(all, some []uint32) []uint32 {
		all = slices.DeleteFunc(slices.Clone(all), func(id uint32) bool { return slices.Contains(some, id) })
		slices.Sort(all) // a descriptor and its copies hold one object
		return slices.Compact(all)
	}
	return Objects{
		Programs: minus(o.Programs, some.Programs), Maps: minus(o.Maps, some.Maps),
		Links: minus(o.Links, some.Links),
	}
}
