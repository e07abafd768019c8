package system

import (
	"bytes"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/env"
)

// enumerator is a value of an enum.
type enumerator struct {
	enum  *btf.Enum
	value uint64
}

// Enumerator returns the kernel's enum that has a name, or nil, and the name's value.
func (s *System) Enumerator(name string) (*btf.Enum, uint64) {
	e, known := s.enums[name]
	if !known && !s.every {
		s.find(name)
		e = s.enums[name]
	}
	return e.enum, e.value
}

// find looks up a name together with the names of the scripts. Decoding all enums of a kernel
// takes 250 ms, finding those that have one of some names 5 ms.
func (s *System) find(name string) {
	if len(s.o.Modules) > 0 { // CaptureBTF has only the kernel's own types
		s.makeAll()
		return
	}
	s.names[name] = true
	names := make([]string, 0, len(s.names))
	for n := range s.names {
		names = append(names, n)
	}
	slices.Sort(names)
	raw, _, err := s.env.CaptureBTF(&env.BTFNeeds{Enumerators: names})
	var spec *btf.Spec
	if err == nil {
		spec, err = btf.LoadSpecFromReader(bytes.NewReader(raw))
	}
	if err != nil {
		s.makeAll()
		return
	}
	s.addEnums(spec)
	for _, n := range names {
		if _, ok := s.enums[n]; !ok {
			s.enums[n] = enumerator{}
		}
	}
	clear(s.names)
}

// makeAll decodes all enums.
func (s *System) makeAll() {
	s.every = true
	for _, spec := range s.types() {
		s.addEnums(spec)
	}
}

// addEnums adds the enums of spec. If several have a name, the first one is used.
func (s *System) addEnums(spec *btf.Spec) {
	for t, err := range spec.All() {
		if err != nil {
			return // the rest cannot be read either
		}
		e, ok := t.(*btf.Enum)
		if !ok {
			continue
		}
		for _, v := range e.Values {
			if was, ok := s.enums[v.Name]; !ok || was.enum == nil {
				s.enums[v.Name] = enumerator{e, v.Value}
			}
		}
	}
}
