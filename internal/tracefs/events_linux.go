package tracefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Group is the group of the tracefs events that this library creates. An event's name begins
// with the pid of its creator, so that events left behind by killed processes can be
// recognized.
const Group = "borescope"

// AppendLine writes a line to one of the files of events and filters.
func AppendLine(name, line string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// Sweep removes the events of processes that have ended.
func Sweep(events string) {
	b, err := os.ReadFile(events)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := Abandoned(line); ok {
			_ = AppendLine(events, fmt.Sprintf("-:%s/%s", Group, name)) // events in use stay
		}
	}
}

// Abandoned reports whether a line of a file of events is of an event in Group whose creator
// has ended. It returns the event's name, without its group.
func Abandoned(line string) (name string, ok bool) {
	// "r64:borescope/p1234_0 vfs_read"
	_, rest, ok := strings.Cut(line, ":"+Group+"/")
	if !ok {
		return "", false
	}
	name, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
	owner, _, _ := strings.Cut(strings.TrimPrefix(name, "p"), "_")
	pid, err := strconv.Atoi(owner)
	if err != nil || pid == os.Getpid() {
		return "", false
	}
	_, err = os.Stat("/proc/" + owner)
	return name, errors.Is(err, fs.ErrNotExist)
}
