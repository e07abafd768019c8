package otlp

import (
	"fmt"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	otel "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/profile"
)

// These are OpenTelemetry's names of attributes (semantic conventions), but for the last.
const (
	buildID    = "process.executable.build_id.gnu" // of mappings
	frameType  = "profile.frame.type"              // of locations
	threadName = "thread.name"                     // of samples
	threadID   = "thread.id"
	processID  = "process.pid"
	stackEnd   = "borescope.stack.end" // why a stack is not whole
)

// profiles returns a profile as a request of OTLP, whose fields are those of a ProfilesData: one profile for
// each kind of value.
func profiles(p *profile.Profile, about map[string]string) (*otel.ProfilesData, error) {
	types := p.SampleTypes
	if len(types) == 0 {
		types = []profile.ValueType{{Type: "samples", Unit: "count"}}
	}
	d := newDictionary()
	list := make([]*otel.Profile, len(types))
	for i, t := range types {
		list[i] = &otel.Profile{
			SampleType: d.valueType(t), PeriodType: d.valueType(p.PeriodType), Period: p.Period,
			DurationNano: uint64(max(p.Duration, 0)),
		}
		if !p.Time.IsZero() {
			list[i].TimeUnixNano = uint64(p.Time.UnixNano())
		}
	}
	for i := range p.Samples {
		s := &p.Samples[i]
		if len(s.Values) != len(types) {
			return nil, fmt.Errorf("sample %d has %d values for %d types", i, len(s.Values), len(types))
		}
		stack, attributes := d.stack(s), d.ofSample(s)
		for v, to := range list {
			if s.Values[v] == 0 && len(types) > 1 { // has none of this kind
				continue
			}
			to.Samples = append(to.Samples, &otel.Sample{
				StackIndex: stack, AttributeIndices: attributes, Values: []int64{s.Values[v]},
			})
		}
	}
	return &otel.ProfilesData{
		Dictionary: d.out,
		ResourceProfiles: []*otel.ResourceProfiles{{
			Resource:      resourceOf(about),
			ScopeProfiles: []*otel.ScopeProfiles{{Scope: scope, Profiles: list}},
		}},
	}, nil
}

// dictionary has what profiles share, each once. Index 0 of each table means none.
type dictionary struct {
	out     *otel.ProfilesDictionary
	strings map[string]int32
	known   map[string]int32 // the other tables' entries, by table and encoding
	frames  map[*profile.NamedFrame]int32
}

func newDictionary() *dictionary {
	return &dictionary{
		out: &otel.ProfilesDictionary{
			MappingTable: []*otel.Mapping{{}}, LocationTable: []*otel.Location{{}},
			FunctionTable: []*otel.Function{{}}, StringTable: []string{""}, StackTable: []*otel.Stack{{}},
			LinkTable:      []*otel.Link{{TraceId: make([]byte, 16), SpanId: make([]byte, 8)}},
			AttributeTable: []*otel.KeyValueAndUnit{{}},
		},
		strings: map[string]int32{"": 0}, known: map[string]int32{}, frames: map[*profile.NamedFrame]int32{},
	}
}

// text returns the index of a text.
func (d *dictionary) text(s string) int32 {
	s = validUTF8(s)
	i, ok := d.strings[s]
	if !ok {
		i = int32(len(d.out.StringTable))
		d.out.StringTable = append(d.out.StringTable, s)
		d.strings[s] = i
	}
	return i
}

// index returns the index of an entry in a table, to which it adds one that is new.
func index[M proto.Message](d *dictionary, table *[]M, entry M) int32 {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(entry)
	if err != nil { // a message of numbers and texts that are valid has none
		return 0
	}
	key := string(entry.ProtoReflect().Descriptor().Name()) + string(b)
	i, ok := d.known[key]
	if !ok {
		i = int32(len(*table))
		*table = append(*table, entry)
		d.known[key] = i
	}
	return i
}

func (d *dictionary) valueType(t profile.ValueType) *otel.ValueType {
	return &otel.ValueType{TypeStrindex: d.text(t.Type), UnitStrindex: d.text(t.Unit)}
}

func (d *dictionary) attribute(key, value string) int32 { return d.attributeOf(key, textOf(value), "") }

func (d *dictionary) number(key string, n int64, unit string) int32 {
	return d.attributeOf(key, &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}, unit)
}

func (d *dictionary) attributeOf(key string, v *common.AnyValue, unit string) int32 {
	return index(d, &d.out.AttributeTable, &otel.KeyValueAndUnit{
		KeyStrindex: d.text(key), Value: v, UnitStrindex: d.text(unit),
	})
}

// ofSample returns the attributes of a sample.
func (d *dictionary) ofSample(s *profile.Sample) (list []int32) {
	if s.Comm != "" {
		list = append(list, d.attribute(threadName, s.Comm))
	}
	if s.PID != 0 {
		list = append(list, d.number(processID, int64(s.PID), ""))
	}
	if s.TID != 0 {
		list = append(list, d.number(threadID, int64(s.TID), ""))
	}
	if !s.Stopped.Whole() && s.Stopped != stack.StopUnknown {
		list = append(list, d.attribute(stackEnd, s.Stopped.String()))
	}
	for _, l := range s.Labels {
		if l.Str != "" {
			list = append(list, d.attribute(l.Key, l.Str))
		} else {
			list = append(list, d.number(l.Key, l.Num, l.Unit))
		}
	}
	return list
}

// stack returns the index of a sample's stack.
func (d *dictionary) stack(s *profile.Sample) int32 {
	if len(s.Frames) == 0 {
		return 0
	}
	out := &otel.Stack{}
	for _, f := range s.Frames {
		i, ok := d.frames[f]
		if !ok {
			i = d.location(f)
			d.frames[f] = i
		}
		out.LocationIndices = append(out.LocationIndices, i)
	}
	return index(d, &d.out.StackTable, out)
}

// location returns the index of a frame's location.
func (d *dictionary) location(f *profile.NamedFrame) int32 {
	l := &otel.Location{Address: f.LookupPC()}
	if m := f.Mapping; m != nil {
		out := &otel.Mapping{
			MemoryStart: m.Start, MemoryLimit: m.Limit, FileOffset: m.Offset, FilenameStrindex: d.text(m.File),
		}
		if m.BuildID != "" {
			out.AttributeIndices = []int32{d.attribute(buildID, m.BuildID)}
		}
		l.MappingIndex = index(d, &d.out.MappingTable, out)
	}
	switch f.Kind {
	case profile.FrameKernel:
		l.AttributeIndices = []int32{d.attribute(frameType, "kernel")}
	case profile.FrameUser:
		l.AttributeIndices = []int32{d.attribute(frameType, "native")}
	}
	for i := range f.Functions {
		fn := &f.Functions[i]
		l.Lines = append(l.Lines, &otel.Line{
			FunctionIndex: index(d, &d.out.FunctionTable, &otel.Function{
				NameStrindex: d.text(fn.Name), SystemNameStrindex: d.text(fn.SystemName), FilenameStrindex: d.text(fn.File),
			}),
			Line: int64(fn.Line), Column: int64(fn.Column),
		})
	}
	return index(d, &d.out.LocationTable, l)
}
