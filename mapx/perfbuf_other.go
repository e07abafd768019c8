//go:build !linux

package mapx

import (
	"context"
	"os"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx/internal/raw"
)

type perfBuffer struct{}

func (*perfBuffer) open(*ebpf.Map, *PerfBufferOptions) error { return raw.Supported("perf buffer") }

func (*perfBuffer) read(context.Context, *Record) error { return os.ErrClosed }

func (*perfBuffer) stats() (Stats, error) { return Stats{}, os.ErrClosed }

func (*perfBuffer) close() error { return nil }
