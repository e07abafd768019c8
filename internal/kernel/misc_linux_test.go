package kernel

import (
	"errors"
	"sync/atomic"
	"testing"
)

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		release string
		want    bool
	}{
		{"5.10.0-30-cloud-amd64", true},
		{"5.9", true},
		{"4.19.1", true},
		{"5.11.0", false},
		{"6.1.0", false},
		{"5.110-rc1", false},
		{"6", false},
		{"10.0", false},
		{"", true},
	} {
		if got := older(c.release, 5, 11); got != c.want {
			t.Errorf("older(%q) = %v", c.release, got)
		}
	}
}

func TestCloseAll(t *testing.T) {
	for _, n := range []int{0, 1, 5, 63, 64, 1000} {
		var ran atomic.Int64
		bad := errors.New("bad")
		list := make([]func() error, n)
		for i := range list {
			list[i] = func() error {
				ran.Add(1)
				if i == n/2 {
					return bad
				}
				return nil
			}
		}
		err := CloseAll(list)
		if int(ran.Load()) != n {
			t.Errorf("%d of %d ran", ran.Load(), n)
		}
		if (n > 0) != errors.Is(err, bad) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
