//go:build !linux

package load

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
)

func loadFsession(*ebpf.ProgramSpec, *btf.Cache) (*ebpf.Program, error) {
	return nil, &feature.UnsupportedError{
		Feature: feature.Fsession.String(),
		Since:   feature.Fsession.Since(), Hint: "requires Linux",
	}
}
