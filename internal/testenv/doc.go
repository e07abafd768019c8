// Package testenv checks what a test needs, skips it with the true cause if something is
// missing, and reports what tests leave behind.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestAttach(t *testing.T) {
//		testenv.Need(t, testenv.Root, testenv.Kprobes)
//		…
//	}
//
// A skip has one line that begins with SkipPrefix and lists every unmet requirement with its
// cause:
//
//	SKIP-NEED: kprobe: CONFIG_KPROBES is not set; tool gcc: not found
//
// The cause must be proven: a cause that can be checked is checked again. If a kernel of this
// version should have a feature, and refuses it without a cause, the test fails instead of
// being skipped.
package testenv
