// Package testenv says what a test needs, skips it with the true cause where
// that is missing, and finds what tests leave behind.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestAttach(t *testing.T) {
//		testenv.Need(t, testenv.Root, testenv.Kprobes)
//		…
//	}
//
// A skip has one line that begins with SkipPrefix and names every requirement
// that is not met with its cause:
//
//	SKIP-NEED: kprobe: CONFIG_KPROBES is not set; tool gcc: not found
//
// It has to be proven: a cause that can be checked is checked once more, and a
// feature that a kernel of this version should have, refused without a cause,
// fails the test instead of skipping it.
package testenv
