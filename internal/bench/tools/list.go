package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// comparison is a tool of ours, the first, and its peers.
type comparison struct {
	name, what             string
	pulseEvent, burstEvent string
	loads                  string // the program that causes them
	tools                  []*tool

	alone time.Duration // an event of the burst that nobody traces
}

func (c *comparison) burst() int { return kinds[c.name].batches * kinds[c.name].batch }

// comparisons lists what is measured. What bpftrace runs is what its own tools
// of that name run, without the limits of their output.
func comparisons(dir, loads string) []*comparison {
	ours := func(name string, args ...string) []string { return append([]string{filepath.Join(dir, name)}, args...) }
	functions := loads + ":main.*ed"
	list := []*comparison{
		{
			name: "syscount", what: "system calls by name, of all processes",
			pulseEvent: "getppid", burstEvent: "getpgid",
			tools: []*tool{
				{name: "borescope", args: ours("syscount", "-T", "500"), seen: row},
				{name: "BCC", args: []string{"syscount-bpfcc", "-T", "500"}, seen: row},
				{name: "bpftrace", args: []string{"bpftrace", "-e", syscountBT}, seen: systemCall},
			},
		}, {
			name: "opensnoop", what: "every file that is opened",
			pulseEvent: pulseName, burstEvent: burstName,
			tools: []*tool{
				{name: "borescope", args: ours("opensnoop"), seen: strings.Count},
				{name: "BCC", args: []string{"opensnoop-bpfcc"}, seen: strings.Count},
				{name: "bpftrace", args: []string{"bpftrace", "/usr/sbin/opensnoop.bt"}, seen: strings.Count},
			},
		}, {
			name: "execsnoop", what: "every program that is started",
			pulseEvent: pulseName, burstEvent: burstName,
			tools: []*tool{
				{name: "borescope", args: ours("execsnoop"), seen: strings.Count},
				{name: "BCC", args: []string{"execsnoop-bpfcc"}, seen: strings.Count},
				{name: "bpftrace", args: []string{"bpftrace", "/usr/sbin/execsnoop.bt"}, seen: strings.Count},
			},
		}, {
			name: "funccount", what: "calls of two Go functions, by uprobes",
			pulseEvent: "main.pulsed", burstEvent: "main.bursted",
			tools: []*tool{
				{name: "borescope", args: ours("funccount", "uprobe:"+functions), seen: row},
				{name: "BCC", args: []string{"funccount-bpfcc", functions}, seen: row},
				{name: "bpftrace", args: []string{"bpftrace", "-e", "uprobe:" + functions + " { @[func] = count(); }"}, seen: mapKey},
			},
		},
	}
	for _, c := range list {
		c.loads = loads
	}
	return list
}

const syscountBT = "tracepoint:raw_syscalls:sys_enter { @syscall[args->id] = count(); @process[comm] = count(); }"

// row finds a table's row: the event at its beginning or after blanks, and a
// number after it.
func row(out, event string) int {
	return number(regexp.MustCompile(`(?m)^.*`+regexp.QuoteMeta(event)+`'?\s+(\d+)\s*$`), out)
}

// mapKey finds what bpftrace prints of a map with one key.
func mapKey(out, event string) int {
	return number(regexp.MustCompile(fmt.Sprintf(`(?m)^@.*\[%s\]: (\d+)$`, regexp.QuoteMeta(event))), out)
}

func systemCall(out, event string) int {
	id := map[string]int{"getppid": unix.SYS_GETPPID, "getpgid": unix.SYS_GETPGID}[event]
	return mapKey(out, strconv.Itoa(id))
}

func number(re *regexp.Regexp, out string) int {
	sum := 0
	for _, m := range re.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[1]) // digits
		sum += n
	}
	return sum
}
