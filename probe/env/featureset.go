package env

import "github.com/borescope/borescope/internal/feature"

// Feature is one thing that a kernel may be able to do, such as kprobe-multi. Its String is
// a stable name. Its Since is the first mainline kernel that has it ("5.18"), empty if it
// does not depend on the version. RecordFeatures records all of them.
type Feature = feature.Feature

// FeatureSet holds the features of one machine. It is plain data, keyed by the names of
// features; it prints as a table and is stored as JSON
// ({"kprobe-multi":{"state":"yes"},…}; states are yes, no and unknown, with the reason as
// "why"). A feature that it does not name is unknown. Nil is this machine, asked live.
type FeatureSet = feature.Set

// ParseFeature returns the feature of that name. It is the inverse of a Feature's String.
func ParseFeature(name string) (Feature, error) { return feature.Parse(name) }

// RecordFeatures tests this machine for the given features, or for all of them if none is
// given. It tries each: it loads programs and opens events for a moment, and leaves nothing
// behind. The result can be used elsewhere as Options.Features of an Env that describes this
// machine. Features that this process lacks the privileges to try are unknown. On systems
// other than Linux no feature is there.
func RecordFeatures(fs ...Feature) FeatureSet { return feature.Record(fs...) }
