package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/borescope/borescope/internal/bench/peer"
)

// costOf is one of our tools that no comparison has, with a load of one that does. The load
// defines an event: it is one of its burst or, if it has a cost, one of that.
type costOf struct {
	what, load string
	args       []string // the tool first
}

var costs = []costOf{
	{"getpgid", "syscount", []string{"argdist", "-C", "t:syscalls:sys_enter_getpgid args.pid"}},
	{"getpgid", "syscount", []string{"funccount", "t:syscalls:sys_enter_getpgid"}},
	{"getpgid", "syscount", []string{"stackcount", "t:syscalls:sys_enter_getpgid"}},
	{"getpgid", "syscount", []string{"tsa", "-p", victim}},
	{"kill", "killsnoop", []string{"trace", "t:syscalls:sys_enter_kill"}},
	{"exec", "execsnoop", []string{"execsnoop"}},
	{"connect, accept, close", "tcpconnect", []string{"tcpconnect"}},
	{"connect, accept, close", "tcpconnect", []string{"tcplife"}},
	{"connect, accept, close", "tcpconnect", []string{"tcptop", "60"}},
	{"two switches and wakeups", "runqlat", []string{"runqlat"}},
	{"two switches and wakeups", "runqlat", []string{"offcputime"}},
	{"two switches and wakeups", "runqlat", []string{"wakeuptime"}},
}

// guestCosts need kprobes or trampolines. The first is also measured without a guest, and so
// shows how slow a guest is.
var guestCosts = []costOf{
	{"open of no file", "opensnoop", []string{"opensnoop"}},
	{"read of a cached page", "read", []string{"vfsstat", "60"}},
	{"read of a cached page", "read", []string{"cachestat", "60"}},
	{"read of a cached page", "read", []string{"ext4slower"}},
}

// runCosts runs cost for the tools that work on the kernel, here or in a guest.
func (s *settings) runCosts() error {
	list := append(slices.Clone(costs), guestCosts[0])
	if s.guest != "" || s.bin != "" {
		list = guestCosts
	}
	if s.bin != "" {
		return s.cost(list)
	}
	var names []string
	for _, k := range list {
		if !slices.Contains(names, k.args[0]) {
			names = append(names, k.args[0])
		}
	}
	clean, err := s.build(names)
	defer clean()
	if err != nil {
		return err
	}
	if s.guest != "" {
		return s.inGuest(context.Background(), names, "-cost")
	}
	return s.cost(list)
}

// cost prints the time that each of our tools adds to an event, which is that of the quickest
// of many batches less the same without the tool, and the kernel's account of its programs.
func (s *settings) cost(list []costOf) error {
	for _, k := range list {
		name := k.args[0]
		c := &comparison{name: k.load, loads: filepath.Join(s.bin, loadsName)}
		t := &tool{name: name, args: append([]string{filepath.Join(s.bin, name)}, k.args[1:]...)}
		var alone, with time.Duration
		var spent peer.Account
		for range s.rounds {
			err := c.withLoad(func(l *load, pid int) error {
				each, err := l.burst()
				if err != nil {
					return err
				}
				alone = least(alone, each)
				p, err := t.start(pid)
				if err != nil {
					return err
				}
				defer p.end()
				if each, err = l.burst(); err != nil {
					return err
				}
				with = least(with, each)
				now, err := l.accounted([]*process{p})
				if err == nil && (spent.Runs == 0 || now[0].Time < spent.Time) {
					spent = now[0]
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		fmt.Printf("%-12s %7d ns of %7d, %s: %s\n", name, (with - alone).Nanoseconds(),
			alone.Nanoseconds(),
			spent.Each(kinds[k.load].events()), k.what)
	}
	return nil
}
