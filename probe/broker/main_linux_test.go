package broker

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockEnv has a test's child give up what executing programs could give it.
const lockEnv = "BORESCOPE_NO_NEW_PRIVS"

// init runs on the main thread, which is the one that probes of a process
// follow.
func init() {
	if os.Getenv(lockEnv) == "" {
		return
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
}
