package feature

import (
	"strconv"
	"strings"
)

// KernelAtLeast reports whether the running kernel's version is at least the
// given one, "5.15". It is for tests and for wording a hint; whether something
// works is for Test to say.
func KernelAtLeast(version string) bool {
	return !versionLess(Release(), version)
}

// versionLess compares the leading major.minor numbers of two releases.
func versionLess(a, b string) bool {
	am, an := majorMinor(a)
	bm, bn := majorMinor(b)
	return am < bm || am == bm && an < bn
}

func majorMinor(s string) (major, minor int) {
	parts := strings.SplitN(s, ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1][:digits(parts[1])])
	}
	return major, minor
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
