//go:build !linux

package mapx

import (
	"context"
	"os"

	"github.com/cilium/ebpf"
)

type perfBuffer struct{}

func (*perfBuffer) open(*ebpf.Map, *PerfBufferOptions) error { return supported("perf buffer") }

func (*perfBuffer) read(context.Context, *Record) error { return os.ErrClosed }

func (*perfBuffer) stats() (Stats, error) { return Stats{}, os.ErrClosed }

func (*perfBuffer) close() error { return nil }
