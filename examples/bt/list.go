package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
)

// everything are the patterns of all kinds of probes that are listed without naming a file.
var everything = []string{
	"hardware:", "software:", "tracepoint:*:", "rawtracepoint:", "iter:", "fentry:", "kprobe:",
}

// ofProcess are the kinds that are in the files of a process.
var ofProcess = []string{"uprobe:*:", "usdt:*:*:"}

// listAll prints what matches a pattern, or several behind commas, some of which are for types.
func (o *options) listAll(pattern string) error {
	parts := strings.Split(pattern, ",")
	if !slices.ContainsFunc(parts, isType) {
		return o.listMatches(pattern)
	}
	for _, part := range parts {
		list := o.listMatches
		if isType(part) {
			list = o.listTypes
		}
		if err := list(part); err != nil {
			return err
		}
	}
	return nil
}

// isType reports whether a pattern is one for types.
func isType(pattern string) bool {
	kind, _, named := strings.Cut(strings.TrimSpace(pattern), " ")
	return named && (kind == "struct" || kind == "union" || kind == "enum")
}

// listTypes prints the kernel's types that match a pattern, with -v their definitions.
func (o *options) listTypes(pattern string) error {
	spec, err := o.env().BTF()
	if err != nil {
		return err
	}
	kind, name, _ := strings.Cut(strings.TrimSpace(pattern), " ")
	said := map[string]bool{}
	for t, err := range spec.All() {
		if err != nil {
			return err
		}
		of := t.TypeName()
		if kindOf(t) != kind || of == "" || said[of] {
			continue
		}
		ok, err := path.Match(name, of)
		if err != nil {
			return fmt.Errorf("-l %s: %w", pattern, err)
		}
		if !ok {
			continue
		}
		said[of] = true
		text := kind + " " + of
		if o.verbose {
			text = probe.TypeDefinition(t)
		}
		if err := o.stdout.Text(text + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// kindOf returns the word before the name of a type that has members.
func kindOf(t btf.Type) string {
	switch t.(type) {
	case *btf.Struct:
		return "struct"
	case *btf.Union:
		return "union"
	case *btf.Enum:
		return "enum"
	}
	return ""
}

// listMatches prints the probes that match a pattern: with -p those in the files of the process. Without
// a kind, it is looked for in all.
func (o *options) listMatches(pattern string) error {
	patterns := []string{pattern}
	if !strings.Contains(pattern, ":") {
		kinds := everything
		if o.pid != 0 {
			kinds = ofProcess
		}
		if pattern == "" || !strings.Contains(pattern, "*") {
			pattern = "*" + strings.TrimLeft(pattern+"*", "*")
		}
		patterns = nil
		for _, kind := range kinds {
			patterns = append(patterns, kind+pattern)
		}
	}
	if o.pid != 0 {
		for i, p := range patterns {
			patterns[i] = fmt.Sprintf("%s pid=%d", inFiles(p), o.pid)
		}
	}
	env := o.env()
	var errs []error
	for _, p := range patterns {
		matches, end := probe.List(p, &probe.ListOptions{Env: env, Args: o.verbose})
		for m := range matches {
			if err := o.stdout.Text(listed(m)); err != nil {
				return err
			}
		}
		if err := end(); err != nil && len(patterns) == 1 {
			errs = append(errs, err)
		} else if unsupported := (*probe.UnsupportedError)(nil); err != nil && !errors.As(err, &unsupported) {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// inFiles completes a pattern that names no file by a pattern for one.
func inFiles(pattern string) string {
	kind, name, _ := strings.Cut(pattern, ":")
	if strings.Contains(name, ":") {
		return pattern
	}
	return kind + ":*:" + name
}

// listed returns the lines of a match: its name and, if they are known, its arguments, as bpftrace -lv
// has them.
func listed(m probe.Match) string { return m.String() + "\n" }

// listScript prints the probes of a script.
func (o *options) listScript() error {
	p, err := o.compile()
	if err != nil {
		return err
	}
	said := map[string]bool{}
	for _, name := range p.Probes() {
		if name = listedName(name); said[name] {
			continue
		}
		said[name] = true
		if err := o.stdout.Text(name + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// listedName returns the name of an attach point as bpftrace lists it: without the number of events or
// times after which it fires, and a function of the kernel's types with the kernel itself as its module.
func listedName(name string) string {
	parts := strings.Split(name, ":")
	switch parts[0] {
	case "interval", "profile", "software", "hardware":
		if len(parts) == 3 {
			return parts[0] + ":" + parts[1] + ":"
		}
	case "fentry", "fexit":
		if len(parts) == 2 {
			return parts[0] + ":vmlinux:" + parts[1]
		}
	}
	return name
}
