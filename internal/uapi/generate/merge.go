package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// table contains the lines of table.txt, by name: values by architecture.
type table map[string]map[string]int64

// merge combines the sources. A name for which two of them differ is left out, with a message.
// So are names that are macros in x/sys but enumerators in the headers.
func merge(headers map[string]map[string]int64, common map[string]int64,
	sys map[string]map[string]int64, enumerated map[string]bool,
) table {
	t := table{}
	set := func(name, arch string, v int64, source string) {
		if t[name] == nil {
			t[name] = map[string]int64{}
		}
		if old, ok := t[name][arch]; ok && old != v {
			fmt.Fprintf(os.Stderr, "%s on %s is %d, and by %s %d: left out\n", name, arch, old, source, v)
			t[name]["conflict"] = 1
			return
		}
		t[name][arch] = v
	}
	for arch, values := range headers {
		for name, v := range values {
			set(name, arch, v, "headers")
		}
	}
	for name, v := range common {
		for _, arch := range arches {
			if _, ok := t[name][arch]; !ok { // the kernel's first: its O_LARGEFILE is not 0
				set(name, arch, v, "libc")
			}
		}
	}
	for arch, values := range sys {
		for name, v := range values {
			// x/sys has the C library's O_LARGEFILE.
			if name != "O_LARGEFILE" && (!enumerated[name] || t[name] != nil) {
				set(name, arch, v, "x/sys")
			}
		}
	}
	for name, values := range t {
		if _, bad := values["conflict"]; bad {
			delete(t, name)
			continue
		}
		agreed(name, values)
	}
	return t
}

// agreed sets the value for loong64: the one on which the others agree, or that of riscv64 for
// names that both have from asm-generic's headers. The headers of amd64 may be newer than the
// others, so its values of names that are the same on all machines are used for all.
func agreed(name string, values map[string]int64) {
	v, ok := values["amd64"]
	if ok && len(values) == 1 && strings.HasPrefix(name, "IORING_") {
		for _, arch := range arches {
			values[arch] = v
		}
	}
	if _, ok := values["loong64"]; ok {
		return
	}
	same := ok
	for _, arch := range arches[1 : len(arches)-1] {
		other, ok := values[arch]
		same = same && ok && other == v
	}
	generic, ok := values["riscv64"]
	switch {
	case same:
		values["loong64"] = v
	case ok && (strings.HasPrefix(name, "O_") || strings.HasPrefix(name, "TFD_")):
		values["loong64"] = generic
	}
}

// text returns the contents of table.txt.
func (t table) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		b.WriteString(name + "=" + entry(t[name]) + "\n")
	}
	return b.String()
}

// entry returns the value that most architectures have, and the exceptions.
func entry(values map[string]int64) string {
	text := func(arch string) string {
		v, ok := values[arch]
		if !ok {
			return "-"
		}
		return strconv.FormatInt(v, 10)
	}
	votes, best := map[string]int{}, ""
	for _, arch := range arches {
		v := text(arch)
		if votes[v]++; votes[v] > votes[best] {
			best = v
		}
	}
	word := best
	for _, arch := range arches {
		if v := text(arch); v != best {
			word += "," + arch + ":" + v
		}
	}
	return word
}
