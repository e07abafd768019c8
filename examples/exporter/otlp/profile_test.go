package otlp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	otel "go.opentelemetry.io/proto/otlp/profiles/v1development"

	"github.com/borescope/borescope/examples/exporter/otlp"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/profile"
)

// sampled is a profile with two kinds of values.
func sampled() *profile.Profile {
	libc := &profile.Mapping{Start: 0x1000, Limit: 0x2000, Offset: 0x400, File: "/lib/libc.so", BuildID: "abcdef"}
	frame := func(pc uint64, m *profile.Mapping, kind profile.FrameKind, names ...string) *profile.NamedFrame {
		f := &profile.NamedFrame{Frame: stack.Frame{PC: pc}, Mapping: m, Kind: kind}
		for i, n := range names {
			f.Functions = append(f.Functions, profile.Function{Name: n, File: "a.c", Line: 10 + i})
		}
		return f
	}
	leaf, root := frame(0x1010, libc, profile.FrameUser, "inlined", "outer"), frame(0x1020, libc, profile.FrameUser, "main")
	kernel := frame(0xffffffff81000000, nil, profile.FrameKernel, "do_\xff")
	return &profile.Profile{
		SampleTypes: []profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType:  profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10101010,
		Time: time.Unix(1_000_000, 7), Duration: time.Second,
		Samples: []profile.Sample{
			{Frames: []*profile.NamedFrame{leaf, root}, Values: []int64{3, 30}, Comm: "sh", PID: 7, TID: 8},
			{Frames: []*profile.NamedFrame{kernel, leaf}, Values: []int64{1, 10}, Comm: "sh", Stopped: stack.StopLeftOut},
			{Frames: []*profile.NamedFrame{leaf, root}, Values: []int64{2, 0}, Comm: "sh"}, // took no time
		},
	}
}

// TestSendProfile: a profile arrives as one for each kind of value, with its stacks, build-ids, inlined
// functions and attributes.
func TestSendProfile(t *testing.T) {
	got := &otel.ProfilesData{}
	overBoth(t, "/v1development/profiles", profilesPath, got, func(t *testing.T, c *otlp.Client) {
		if err := c.SendProfile(t.Context(), sampled()); err != nil {
			t.Fatal(err)
		}
		checkProfiles(t, got)
	})
	wrong := sampled()
	wrong.Samples[0].Values = wrong.Samples[0].Values[:1]
	if err := otlp.New("http://127.0.0.1:1", nil).SendProfile(t.Context(), wrong); err == nil ||
		!strings.Contains(err.Error(), "sample 0 has 1 values for 2 types") {
		t.Errorf("a sample without a value: %v", err)
	}
}

func checkProfiles(t *testing.T, got *otel.ProfilesData) {
	const (
		lib  = " /lib/libc.so process.executable.build_id.gnu=abcdef profile.frame.type=native"
		leaf = " | 1010" + lib + " inlined:10 outer:11"
		user = leaf + " | 1020" + lib + " main:10"
		kern = " | ffffffff81000000  profile.frame.type=kernel do_\uFFFD:10" + leaf
		sh   = " thread.name=sh"
	)
	end := " borescope.stack.end=" + stack.StopLeftOut.String()
	want := [][]string{
		{
			"samples/count [3]" + sh + " process.pid=7 thread.id=8" + user,
			"samples/count [1]" + sh + end + kern,
			"samples/count [2]" + sh + user,
		},
		{
			"cpu/nanoseconds [30]" + sh + " process.pid=7 thread.id=8" + user,
			"cpu/nanoseconds [10]" + sh + end + kern,
		},
	}
	d, list := got.Dictionary, got.ResourceProfiles[0].ScopeProfiles[0].Profiles
	if len(list) != len(want) || len(d.MappingTable) != 2 || len(d.StackTable) != 3 {
		t.Fatalf("%d profiles of %d mappings and %d stacks", len(list), len(d.MappingTable)-1, len(d.StackTable)-1)
	}
	for i, p := range list {
		if p.Period != 10101010 || p.TimeUnixNano != 1e15+7 || p.DurationNano != 1e9 || d.StringTable[p.PeriodType.TypeStrindex] != "cpu" {
			t.Errorf("profile %d has %v", i, p)
		}
		if lines := lines(d, p); !slices.Equal(lines, want[i]) {
			t.Errorf("profile %d is\n%s\nwant\n%s", i, strings.Join(lines, "\n"), strings.Join(want[i], "\n"))
		}
	}
}

// lines returns what the samples of a profile say: type, unit, values, attributes, and frames.
func lines(d *otel.ProfilesDictionary, p *otel.Profile) (list []string) {
	attributes := func(of []int32) (s string) {
		for _, i := range of {
			a := d.AttributeTable[i]
			s += " " + d.StringTable[a.KeyStrindex] + "="
			if text := a.Value.GetStringValue(); text != "" {
				s += text
			} else {
				s += fmt.Sprint(a.Value.GetIntValue())
			}
		}
		return s
	}
	for _, s := range p.Samples {
		line := fmt.Sprint(d.StringTable[p.SampleType.TypeStrindex], "/", d.StringTable[p.SampleType.UnitStrindex], " ", s.Values,
			attributes(s.AttributeIndices))
		for _, i := range d.StackTable[s.StackIndex].LocationIndices {
			l := d.LocationTable[i]
			m := d.MappingTable[l.MappingIndex]
			line += fmt.Sprintf(" | %x %s%s%s", l.Address, d.StringTable[m.FilenameStrindex], attributes(m.AttributeIndices),
				attributes(l.AttributeIndices))
			for _, n := range l.Lines {
				line += fmt.Sprint(" ", d.StringTable[d.FunctionTable[n.FunctionIndex].NameStrindex], ":", n.Line)
			}
		}
		list = append(list, line)
	}
	return list
}
