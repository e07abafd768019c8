package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// costs are our tools that have no peer in comparisons, with a load of theirs.
// What an event is, is said there: the load's burst, or its cost.
var costs = []struct {
	what, load string
	args       []string // the tool first
}{
	{"getpgid", "syscount", []string{"argdist", "-C", "t:syscalls:sys_enter_getpgid args.pid"}},
	{"getpgid", "syscount", []string{"funccount", "t:syscalls:sys_enter_getpgid"}},
	{"getpgid", "syscount", []string{"stackcount", "t:syscalls:sys_enter_getpgid"}},
	{"getpgid", "syscount", []string{"tsa", "-p", victim}},
	{"kill", "killsnoop", []string{"trace", "t:syscalls:sys_enter_kill"}},
	{"connect, accept, close", "tcpconnect", []string{"tcpconnect"}},
	{"connect, accept, close", "tcpconnect", []string{"tcplife"}},
	{"connect, accept, close", "tcpconnect", []string{"tcptop", "60"}},
	{"two switches and wakeups", "runqlat", []string{"runqlat"}},
	{"two switches and wakeups", "runqlat", []string{"offcputime"}},
	{"two switches and wakeups", "runqlat", []string{"wakeuptime"}},
}

// cost prints what our tools add to an event each: the quickest of many batches,
// less the same without the tool.
func (s *settings) cost() error {
	for _, k := range costs {
		name := k.args[0]
		if err := build(filepath.Join(s.bin, name), "examples/"+name); err != nil {
			return err
		}
		c := &comparison{name: k.load, loads: filepath.Join(s.bin, loadsName)}
		t := &tool{name: name, args: append([]string{filepath.Join(s.bin, name)}, k.args[1:]...)}
		var alone, with time.Duration
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
				each, err = l.burst()
				with = least(with, each)
				p.end()
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		fmt.Printf("%-12s %7d ns of %7d: %s\n", name, (with - alone).Nanoseconds(), alone.Nanoseconds(), k.what)
	}
	return nil
}
