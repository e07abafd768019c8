package main

import (
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/bench/peer"
)

// accounted makes one burst while the kernel counts, and returns the account of each
// process's programs.
func (l *load) accounted(running []*process) ([]peer.Account, error) {
	stop, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, err
	}
	defer stop.Close()
	read := func() (all []peer.Account, err error) {
		for _, p := range running {
			a, err := peer.AccountOf(p.cmd.Process.Pid)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
		}
		return all, nil
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	if _, err := l.burst(); err != nil {
		return nil, err
	}
	after, err := read()
	for i := range after {
		after[i] = after[i].Less(before[i])
	}
	return after, err
}
