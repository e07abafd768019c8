//go:build !linux

package broker

import (
	"context"

	"github.com/borescope/borescope/probe"
)

type vetting struct {
	session *session
	rule    *Rule
	offer   *Offer
	targets []probe.Target
	own     []int
	plan    *probe.Plan
}

func (v *vetting) run(context.Context) error { return unsupported() }
func (v *vetting) again() error              { return unsupported() }
