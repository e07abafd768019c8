package pmc

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/notexist"
)

// VendorEvent is one event of a vendor's list, in the JSON that Intel's perfmon project
// publishes and that perf's pmu-events contain.
type VendorEvent struct {
	// Name is the vendor's name: "LONGEST_LAT_CACHE.MISS".
	Name string
	// PMU is the PMU it is for: "cpu", "cpu_core", "cpu_atom".
	PMU string
	// Terms are its encoding for that PMU: "event=0x2e,umask=0x41".
	Terms string
	// Description describes it in a line, for a person.
	Description string
}

// maxVendorFile bounds the size of a list in bytes; perfmon's largest has 6 MB.
const maxVendorFile = 64 << 20

// vendorRecord is the JSON of one event. In perfmon's lists all values are strings ("0x2E"),
// comma-separated if there are alternatives.
type vendorRecord struct {
	EventName, EventCode, UMask, CounterMask, Invert, EdgeDetect, AnyThread string
	MSRIndex, MSRValue, BriefDescription, Unit, UMaskExt                    string
}

// VendorEvents returns the vendor's events for this host's CPU from opts.Events. These are
// either perfmon's tree, whose mapfile.csv assigns the lists to CPUs, or a directory with the
// *.json of this CPU only (as perf's pmu-events have for each model). Events of PMUs outside
// the cores are left out.
func VendorEvents(opts *Options) ([]VendorEvent, error) {
	if opts == nil || opts.Events == nil {
		return nil, errors.New("vendor events: Options.Events is not set")
	}
	files, err := vendorFiles(opts.Events, rootOf(opts))
	if err != nil {
		return nil, err
	}
	var out []VendorEvent
	for _, f := range files {
		events, err := readVendorFile(opts.Events, f)
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}

// vendorFile is one list, and the PMU that its events are for.
type vendorFile struct{ name, pmu string }

func vendorFiles(events, root fs.FS) ([]vendorFile, error) {
	b, err := fs.ReadFile(events, "mapfile.csv")
	if errors.Is(err, fs.ErrNotExist) {
		names, err := fs.Glob(events, "*.json")
		if err == nil && len(names) == 0 {
			err = notexist.Error("vendor events: neither mapfile.csv nor a .json file")
		}
		var out []vendorFile
		for _, n := range names {
			out = append(out, vendorFile{n, "cpu"})
		}
		return out, err
	}
	if err != nil {
		return nil, err
	}
	id, err := cpuModel(root)
	if err != nil {
		return nil, fmt.Errorf("vendor events: %w", err)
	}
	out, err := parseMapfile(string(b), id)
	if err == nil && len(out) == 0 {
		err = notexist.Errorf("vendor events: mapfile.csv has none for %s", id)
	}
	return out, err
}

// parseMapfile returns the core lists of a CPU. The first column is a regular expression for
// "VENDOR-FAMILY-MODEL" or, with one more part, the stepping.
func parseMapfile(text, id string) ([]vendorFile, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	var out []vendorFile
	for line := 1; ; line++ {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("mapfile.csv: %w", err)
		}
		if len(row) < 4 || line == 1 {
			continue
		}
		re, err := regexp.Compile("(?i)^(?:" + row[0] + ")(?:-.*)?$")
		if err != nil {
			return nil, fmt.Errorf("mapfile.csv:%d: %w", line, err)
		}
		if !re.MatchString(id) || row[3] != "core" && row[3] != "hybridcore" {
			continue
		}
		f := vendorFile{name: strings.TrimPrefix(path.Clean(row[2]), "/"), pmu: "cpu"}
		if row[3] == "hybridcore" && len(row) > 6 {
			f.pmu = "cpu_" + strings.ToLower(row[6])
		}
		out = append(out, f)
	}
}

// cpuModel returns "GenuineIntel-6-8F-8": vendor, family, model in hexadecimal, stepping, as
// in mapfile.csv.
func cpuModel(root fs.FS) (string, error) {
	b, err := firstCPU(root)
	if err != nil {
		return "", err
	}
	field := func(name string) string {
		for line := range strings.Lines(b) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	family, err1 := strconv.Atoi(field("cpu family"))
	model, err2 := strconv.Atoi(field("model"))
	if err1 != nil || err2 != nil {
		return "", errors.New(
			"proc/cpuinfo names no x86 CPU; give a directory with the .json files of this one")
	}
	id := fmt.Sprintf("%s-%X-%02X", field("vendor_id"), family, model)
	if step, err := strconv.Atoi(field("stepping")); err == nil {
		id += fmt.Sprintf("-%X", step)
	}
	return id, nil
}

// firstCPU reads the first CPU's entry of proc/cpuinfo.
func firstCPU(root fs.FS) (string, error) {
	f, err := root.Open("proc/cpuinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 8<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	first, _, _ := strings.Cut(string(head[:n]), "\n\n")
	return first, nil
}

func readVendorFile(events fs.FS, vf vendorFile) ([]VendorEvent, error) {
	f, err := events.Open(vf.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVendorFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxVendorFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", vf.name, maxVendorFile)
	}
	out, err := ParseVendorEvents(b, vf.pmu)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vf.name, err)
	}
	return out, nil
}

// ParseVendorEvents parses one list: {"Events": [...]} as in perfmon, or the bare array of
// perf's pmu-events. pmu is the PMU that its events are for.
func ParseVendorEvents(data []byte, pmu string) ([]VendorEvent, error) {
	var list struct{ Events []vendorRecord }
	var err error
	if strings.HasPrefix(strings.TrimSpace(string(data[:min(len(data), 64)])), "[") {
		err = json.Unmarshal(data, &list.Events)
	} else {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, err
	}
	var out []VendorEvent
	for _, r := range list.Events {
		if r.EventName == "" || r.EventCode == "" || r.Unit != "" && !strings.HasPrefix(r.Unit, "cpu_") {
			continue // a metric, or an event of a PMU outside the cores
		}
		e := VendorEvent{Name: r.EventName, PMU: pmu, Terms: r.terms(), Description: r.BriefDescription}
		if r.Unit != "" {
			e.PMU = r.Unit
		}
		out = append(out, e)
	}
	return out, nil
}

// fixedEvents are counted by fixed counters. The lists have special codes for them, but the
// kernel takes the architectural ones (tools/perf/pmu-events/jevents.py).
var fixedEvents = map[string]string{
	"inst_retired.any":            "event=0xc0",
	"inst_retired.any_p":          "event=0xc0",
	"cpu_clk_unhalted.ref":        "event=0x0,umask=0x03",
	"cpu_clk_unhalted.ref_tsc":    "event=0x0,umask=0x03",
	"cpu_clk_unhalted.thread":     "event=0x3c",
	"cpu_clk_unhalted.core":       "event=0x3c",
	"cpu_clk_unhalted.thread_any": "event=0x3c,any=1",
}

// terms returns the record in the format terms of the kernel's x86 and arm64 PMUs.
func (r vendorRecord) terms() string {
	if t, ok := fixedEvents[strings.ToLower(r.EventName)]; ok {
		return t
	}
	first := func(s string) string {
		s, _, _ = strings.Cut(s, ",")
		return strings.TrimSpace(s)
	}
	var out []string
	add := func(name, value string) {
		if v := first(value); v != "" && strings.Trim(v, "0x") != "" {
			out = append(out, name+"="+strings.ToLower(v))
		}
	}
	out = append(out, "event="+strings.ToLower(first(r.EventCode)))
	add("umask", r.UMask)
	add("cmask", r.CounterMask)
	add("inv", r.Invert)
	add("edge", r.EdgeDetect)
	add("any", r.AnyThread)
	// The model-specific registers that carry more of the event, by number.
	switch strings.ToLower(first(r.MSRIndex)) {
	case "0x1a6", "0x1a7":
		add("offcore_rsp", r.MSRValue)
	case "0x3f6":
		add("ldlat", r.MSRValue)
	case "0x3f7":
		add("frontend", r.MSRValue)
	}
	return strings.Join(out, ",")
}

// vendorName looks up a name in the vendor's list, ignoring case.
func (p *parser) vendorName(name string) ([]Event, error) {
	if p.vendors == nil {
		var err error
		if p.vendors, err = VendorEvents(p.opts); err != nil {
			return nil, err
		}
	}
	var out []Event
	var known []string
	for _, v := range p.vendors {
		known = append(known, v.Name)
		if !strings.EqualFold(v.Name, name) {
			continue
		}
		e, err := p.vendor(v)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil, unknownEvent(name, known)
	}
	return out, nil
}

// vendor encodes a vendor's event for its PMU. If several PMUs have one of that name
// (cpu_core, cpu_atom), the event's name is its encoding, so that it names the PMU; otherwise
// it is the vendor's name.
func (p *parser) vendor(v VendorEvent) (Event, error) {
	name := v.PMU
	core := corePMUs(p.fsys)
	if !slices.Contains(core, name) && len(core) == 1 {
		name = core[0] // arm64's core PMUs have other names
	}
	pmu, err := lookPMU(p.fsys, name)
	if err != nil {
		return Event{}, fmt.Errorf("%s: PMU %s: %w", v.Name, name, err)
	}
	e, err := pmu.parse(v.Terms)
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", v.Name, err)
	}
	if len(core) < 2 {
		e.Name = v.Name
	} else {
		e.Name = strings.TrimSuffix(e.Name, "/") + ",name=" + v.Name + "/"
		e.Label = v.Name
	}
	return e, nil
}
