package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// comparison is a tool of ours, which is the first, and its peers.
type comparison struct {
	name, what             string
	pulseEvent, burstEvent string
	loads                  string // the program that causes them
	tools                  []*tool
	guest                  bool              // only in a guest
	prepare                func() error      // makes what the load needs, or nil
	rows                   func(string) hist // of a tool's histogram, or nil
	each                   int               // events of each burst

	alone time.Duration // an event of the burst without a tracer
}

func (c *comparison) burst() int {
	return kinds[c.name].batches * kinds[c.name].batch * max(c.each, 1)
}

// names returns the comparisons that can be made: all, or those for which the peers need no
// kprobes and the load no driver.
func names(guest bool) (list []string) {
	for _, c := range comparisons("", "") {
		if guest || !c.guest {
			list = append(list, c.name)
		}
	}
	return list
}

// comparisons returns the measured comparisons. bpftrace runs the programs of its own tools
// of the same names, without the limits of their output.
func comparisons(dir, loads string) (all []*comparison) {
	ours := func(name string, args ...string) []string {
		return append([]string{filepath.Join(dir, name)}, args...)
	}
	functions := loads + ":main.event*"
	list := []*comparison{
		{
			name: "syscount", what: "system calls by name, of all processes",
			pulseEvent: "sched_get_priority_max", burstEvent: "getpgid",
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
			pulseEvent: "main.eventPulse", burstEvent: "main.eventBurst",
			tools: []*tool{
				{name: "borescope", args: ours("funccount", "uprobe:"+functions), seen: row},
				{name: "BCC", args: []string{"funccount-bpfcc", functions}, seen: row},
				{name: "bpftrace", args: []string{
					"bpftrace", "-e",
					"uprobe:" + functions + " { @[func] = count(); }",
				}, seen: mapKey},
			},
		},
	}
	for _, c := range append(list, newer(ours)...) {
		c.loads = loads
		all = append(all, c)
	}
	return all
}

// newer returns the comparisons whose events last for a known time, or need kprobes.
func newer(ours func(name string, args ...string) []string) []*comparison {
	return []*comparison{
		{
			name: "killsnoop", what: "every signal that is sent",
			pulseEvent: strconv.Itoa(pulsePID), burstEvent: strconv.Itoa(burstPID),
			tools: []*tool{
				{name: "borescope", args: ours("killsnoop"), seen: strings.Count},
				{name: "BCC", args: []string{"killsnoop-bpfcc"}, seen: strings.Count},
				{name: "bpftrace", args: []string{"bpftrace", "/usr/sbin/killsnoop.bt"}, seen: strings.Count},
			},
		}, {
			name: "runqlat", what: "how long a process of low priority waits for its CPU",
			pulseEvent: bucketsOf(lasts[0]), burstEvent: bucketsOf(lasts[1:]...), each: 2, rows: parseHist,
			tools: []*tool{
				{name: "borescope", args: ours("runqlat", "-p", victim), seen: buckets},
				{name: "BCC", args: []string{"runqlat-bpfcc", "-p", victim}, seen: buckets},
				// Without kernel headers bpftrace does not have the name of the state.
				{name: "bpftrace", args: script("runqlat",
					"#include <linux/sched.h>", "", "TASK_RUNNING", "0", "if ($ns)",
					"if ($ns && args->next_pid == "+victim+")"), seen: buckets},
			},
		}, {
			name: "tcpconnect", what: "every TCP connection that is opened", guest: true,
			pulseEvent: strconv.Itoa(pulsePort), burstEvent: strconv.Itoa(burstPort),
			tools: []*tool{
				{name: "borescope", args: ours("tcpconnect"), seen: strings.Count},
				{name: "BCC", args: []string{"tcpconnect-bpfcc"}, seen: strings.Count},
				// Without kernel headers it does not have the address family's name either.
				{
					name: "bpftrace", args: script("tcpconnect", "#include <linux/socket.h>", "",
						"#include <net/sock.h>", "", "#include <sys/socket.h>", "", "AF_INET6", "10", "AF_INET", "2"),
					seen: strings.Count,
				},
			},
		}, {
			name: "biolatency", what: "how long reads of disks take", guest: true, prepare: makeDisks,
			pulseEvent: bucketsOf(lasts[0]), burstEvent: bucketsOf(lasts[1:]...), each: 2, rows: parseHist,
			tools: []*tool{
				{name: "borescope", args: ours("biolatency", "-Q"), seen: buckets},
				{name: "BCC", args: []string{"biolatency-bpfcc", "-Q"}, seen: buckets},
				{name: "bpftrace", args: script("biolatency"), seen: buckets},
			},
		},
	}
}

// victim is replaced by the process that is traced.
const victim = "@VICTIM@"

// script returns the command for a tool of bpftrace's with some words replaced. If the tool
// is not installed, the command reports that when it runs.
func script(name string, oldnew ...string) []string {
	file := "/usr/sbin/" + name + ".bt"
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{"bpftrace", file}
	}
	return []string{"bpftrace", "-e", strings.NewReplacer(oldnew...).Replace(string(text))}
}

// hist is a histogram in microseconds: it maps the lowest value of a bucket to its count.
type hist map[int]int

// bucketRow matches a row as our tools and BCC print it, "4 -> 7 : 12 |**|", or as bpftrace
// does, "[4, 8) 12 |@@|".
var bucketRow = regexp.MustCompile(
	`(?m)^(?: +(\d+) -> \d+ +:|\[(\d+)(K?)(?:, \d+K?\)|\])) +(\d+) +\|`)

func parseHist(out string) hist {
	h := hist{}
	for _, m := range bucketRow.FindAllStringSubmatch(out, -1) {
		low, _ := strconv.Atoi(m[1] + m[2]) // one of the two, digits
		if m[3] != "" {
			low <<= 10
		}
		if low == 1 {
			low = 0 // only bpftrace has buckets for 0 and 1
		}
		n, _ := strconv.Atoi(m[4])
		h[low] += n
	}
	return h
}

// buckets returns the number of events in the buckets with the given lowest values.
func buckets(out, lows string) (n int) {
	h := parseHist(out)
	for low := range strings.FieldsSeq(lows) {
		i, _ := strconv.Atoi(low) // digits
		n += h[i]
	}
	return n
}

const syscountBT = "tracepoint:raw_syscalls:sys_enter { @syscall[args->id] = count(); @process[comm] = count(); }"

// row returns the number in a table's row, which follows the event. The event is at the row's
// beginning, or after blanks.
func row(out, event string) int {
	return number(regexp.MustCompile(`(?m)^.*`+regexp.QuoteMeta(event)+`'?\s+(\d+)\s*$`), out)
}

// mapKey returns the number that bpftrace prints for an event in a map with one key.
func mapKey(out, event string) int {
	return number(regexp.MustCompile(fmt.Sprintf(`(?m)^@.*\[%s\]: (\d+)$`, regexp.QuoteMeta(event))),
		out)
}

func systemCall(out, event string) int {
	id := map[string]int{
		"sched_get_priority_max": unix.SYS_SCHED_GET_PRIORITY_MAX,
		"getpgid":                unix.SYS_GETPGID,
	}[event]
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
