package feature

import (
	"slices"
	"strconv"
	"strings"
)

// KernelAtLeast reports whether the running kernel's version is at least the given one,
// "5.15". It is for tests and for hints; use Test to find out whether a feature works.
func KernelAtLeast(version string) bool {
	have, _ := ParseVersion(Release())
	want, _ := ParseVersion(version)
	return !have.Before(want)
}

// Version is a kernel's version, major and minor.
type Version [2]int

// ParseVersion parses "6.1" in "6.1.0-56-cloud-amd64". ok reports whether there is at least a
// major version.
func ParseVersion(release string) (v Version, ok bool) {
	for i := range v {
		n := digits(release)
		x, err := strconv.Atoi(release[:n])
		if err != nil {
			return v, i == 1
		}
		v[i] = x
		release = strings.TrimPrefix(release[n:], ".")
	}
	return v, true
}

// Before reports whether v is older than o.
func (v Version) Before(o Version) bool { return slices.Compare(v[:], o[:]) < 0 }

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
