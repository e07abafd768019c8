package main

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/tool"
)

// printCheck prints a summary of the events that the machine can count.
func printCheck(w *tool.Output, m pmc.Machine) error {
	kind := "machine"
	if m.Hypervisor {
		kind = "virtual machine"
	}
	w.Printf("%s %s, Linux %s, %s, CPUs %s\n", m.Arch, kind, m.Kernel,
		orElse(m.CPU, "unnamed CPU"), m.Online)
	who := "without CAP_PERFMON"
	if m.Privileged {
		who = "with CAP_PERFMON"
	}
	w.Printf("kernel.perf_event_paranoid %d, this process %s; limit %d samples a second\n",
		m.Paranoid, who, m.MaxRate)
	printCounters(w, m)
	w.Println("\nPMUs:")
	for _, p := range m.PMUs {
		w.Printf("  %-16s type %d%s\n", p.Name, p.Type, pmuDetails(p))
	}
	printAbilities(w, "Events", m.Events)
	printAbilities(w, "Features", m.Features)
	w.Printf("\nTo profile, sample %s.\n", m.Clock)
	return w.Flush()
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func printCounters(w *tool.Output, m pmc.Machine) {
	c := m.Counters
	if c.Vendor == "" {
		return
	}
	if c.Version == 0 {
		w.Printf("CPUID (%s): no performance counters\n", c.Vendor)
		return
	}
	w.Printf("CPUID (%s): version %d, %d counters of %d bits, %d fixed\n", c.Vendor,
		c.Version, c.Counters, c.Width, c.Fixed)
	for _, e := range c.Events {
		if !e.Available {
			w.Printf("  without %s\n", e.Name)
		}
	}
	if m.Watchdog {
		w.Println("  the NMI watchdog may hold one (kernel.nmi_watchdog)")
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
func printAbilities(w *tool.Output, title string, all []pmc.Ability) {
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
	w.Printf("\n%s:\n", title)
	if len(works) > 0 {
		w.Printf("  yes: %s\n", strings.Join(works, ", "))
	}
	for _, r := range reasons {
		w.Printf("  no:  %s\n       because %s\n", strings.Join(not[r], ", "), r)
	}
}
