//go:build !linux

package mapx

import (
	"context"
	"os"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/mapx/internal/raw"
)

type ring struct{}

func (*ring) open(*ebpf.Map, *RingOptions) error { return raw.Supported("ring buffer") }

func (*ring) read(context.Context, *Record) error { return os.ErrClosed }

func (*ring) drain(int, func(*Record) error) (int, bool, error) { return 0, false, os.ErrClosed }

func (*ring) wait(context.Context) error { return os.ErrClosed }

func (*ring) stats() (Stats, error) { return Stats{}, os.ErrClosed }

func (*ring) close() error { return nil }
