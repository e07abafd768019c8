package env

import "github.com/borescope/borescope/internal/feature"

// Feature is one thing that a kernel may be able to do, such as kprobe-multi:
// its String is a name that stays, and its Since the first mainline kernel that
// has it ("5.18"), empty where versions don't tell. RecordFeatures names them all.
type Feature = feature.Feature

// FeatureSet is what was found out about one machine: plain data, keyed by the
// names of features, which prints as a table and is kept as JSON
// ({"kprobe-multi":{"state":"yes"},…}; states are yes, no and unknown, with the
// reason as "why"). A feature that it does not name is unknown. Nil is this
// machine, asked live.
type FeatureSet = feature.Set

// ParseFeature is the inverse of a Feature's String.
func ParseFeature(name string) (Feature, error) { return feature.Parse(name) }

// RecordFeatures asks this machine for the given features, for all of them if
// none is given, by trying each: it loads programs and opens events for a
// moment, and leaves nothing behind. The result is Options.Features of an Env
// that answers elsewhere as this machine does. What this process has not the
// privileges to try is unknown in it; elsewhere than on Linux nothing is there.
func RecordFeatures(fs ...Feature) FeatureSet { return feature.Record(fs...) }
