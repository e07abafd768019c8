package peer

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
)

// Account is the kernel's count of the runs of programs, and their total time. The kernel
// counts only while this is enabled (ebpf.EnableStats, Linux 5.8).
type Account struct {
	Runs uint64
	Time time.Duration
}

// Less returns what was added since b.
func (a Account) Less(b Account) Account { return Account{a.Runs - b.Runs, a.Time - b.Time} }

// Each formats the time and the runs for each of so many events.
func (a Account) Each(events int) string {
	return fmt.Sprintf("%d ns in %.2f runs", a.Time.Nanoseconds()/int64(events),
		float64(a.Runs)/float64(events))
}

var programID = regexp.MustCompile(`(?m)^prog_id:\s+(\d+)$`)

// AccountOf returns the account of a process's programs: those of which it has a descriptor,
// or a descriptor of a link.
func AccountOf(pid int) (sum Account, err error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return sum, err
	}
	seen := map[string]bool{}
	for _, fd := range fds {
		info, _ := os.ReadFile(filepath.Join(dir, fd.Name())) // fails if it was closed by now
		m := programID.FindSubmatch(info)
		if m == nil || seen[string(m[1])] {
			continue
		}
		seen[string(m[1])] = true
		id, _ := strconv.Atoi(string(m[1])) // digits
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		if err != nil {
			return sum, err
		}
		st, err := p.Stats()
		p.Close()
		if err != nil {
			return sum, err
		}
		sum.Runs += st.RunCount
		sum.Time += st.Runtime
	}
	if len(seen) == 0 {
		return sum, fmt.Errorf("process %d holds no programs", pid)
	}
	return sum, nil
}
