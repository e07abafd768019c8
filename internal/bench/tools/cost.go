package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// costOf is a tool of ours that has no peer in comparisons, with a load of theirs.
// What an event is, is said there: the load's burst, or its cost.
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

// guestCosts need kprobes or trampolines. The first is there natively, too, and
// tells how slow a guest is.
var guestCosts = []costOf{
	{"open of no file", "opensnoop", []string{"opensnoop"}},
	{"read of a cached page", "read", []string{"vfsstat", "60"}},
	{"read of a cached page", "read", []string{"cachestat", "60"}},
	{"read of a cached page", "read", []string{"ext4slower"}},
}

// runCosts runs cost for the tools that the kernel is for, here or in a guest.
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

// cost prints what our tools add to an event each: the quickest of many batches,
// less the same without the tool, and what the kernel counts for its programs.
func (s *settings) cost(list []costOf) error {
	for _, k := range list {
		name := k.args[0]
		c := &comparison{name: k.load, loads: filepath.Join(s.bin, loadsName)}
		t := &tool{name: name, args: append([]string{filepath.Join(s.bin, name)}, k.args[1:]...)}
		var alone, with time.Duration
		var spent account
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
				if err == nil && (spent.runs == 0 || now[0].time < spent.time) {
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
			spent.each(kinds[k.load].events()), k.what)
	}
	return nil
}
