package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/borescope/borescope/escape"
	"github.com/borescope/borescope/pmc"
)

// printCheck prints a summary of the events that the machine can count.
func printCheck(w *bufio.Writer, m pmc.Machine) error {
	kind := "machine"
	if m.Hypervisor {
		kind = "virtual machine"
	}
	escape.Fprintf(w, "%s %s, Linux %s, %s, CPUs %s\n", m.Arch, kind, m.Kernel,
		orElse(m.CPU, "unnamed CPU"), m.Online)
	who := "without CAP_PERFMON"
	if m.Privileged {
		who = "with CAP_PERFMON"
	}
	escape.Fprintf(w, "kernel.perf_event_paranoid %d, this process %s; at most %d samples a second\n",
		m.Paranoid, who, m.MaxRate)
	printCounters(w, m)
	escape.Fprintln(w, "\nPMUs:")
	for _, p := range m.PMUs {
		escape.Fprintf(w, "  %-16s type %d%s\n", p.Name, p.Type, pmuDetails(p))
	}
	printAbilities(w, "Events", m.Events)
	printAbilities(w, "Features", m.Features)
	escape.Fprintf(w, "\nTo profile, sample %s.\n", m.Clock)
	return w.Flush()
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func printCounters(w *bufio.Writer, m pmc.Machine) {
	c := m.Counters
	if c.Vendor == "" {
		return
	}
	if c.Version == 0 {
		escape.Fprintf(w, "CPUID (%s): no performance counters\n", c.Vendor)
		return
	}
	escape.Fprintf(w, "CPUID (%s): version %d, %d counters of %d bits, %d fixed\n", c.Vendor,
		c.Version, c.Counters, c.Width, c.Fixed)
	for _, e := range c.Events {
		if !e.Available {
			escape.Fprintf(w, "  without %s\n", e.Name)
		}
	}
	if m.Watchdog {
		escape.Fprintln(w, "  the NMI watchdog may hold one (kernel.nmi_watchdog)")
	}
}

func pmuDetails(p pmc.PMU) string {
	var parts []string
	if p.Core {
		parts = append(parts, "the CPUs' own")
	}
	if len(p.Events) > 0 {
		parts = append(parts, fmt.Sprintf("%d named events", len(p.Events)))
	}
	if p.Shared {
		parts = append(parts, "whole packages only")
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// printAbilities lists the events that work, and the others by their reasons, so that a
// reason that many share is printed once.
func printAbilities(w *bufio.Writer, title string, all []pmc.Ability) {
	var works, reasons []string
	not := map[string][]string{}
	for _, a := range all {
		if a.OK {
			works = append(works, a.What)
			continue
		}
		if not[a.Reason] == nil {
			reasons = append(reasons, a.Reason)
		}
		not[a.Reason] = append(not[a.Reason], a.What)
	}
	escape.Fprintf(w, "\n%s:\n", title)
	if len(works) > 0 {
		escape.Fprintf(w, "  yes: %s\n", strings.Join(works, ", "))
	}
	for _, r := range reasons {
		escape.Fprintf(w, "  no:  %s\n       because %s\n", strings.Join(not[r], ", "), r)
	}
}
