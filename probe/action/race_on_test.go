//go:build race

package action_test

// raceEnabled says that the race detector is built in.
const raceEnabled = true
