package tool

import (
	"bufio"
	"fmt"
	"io/fs"
	"strings"
)

// Disk returns the name of a block device, "sda", from the kernel's device number as
// tracepoints have it, or major:minor if it has no name.
func (r *Run) Disk(dev uint32) string {
	if r.names.disks == nil {
		r.names.disks = r.readDisks()
	}
	// MKDEV of include/linux/kdev_t.h: 20 bits of minor.
	number := fmt.Sprintf("%d:%d", dev>>20, dev&(1<<20-1))
	if name, ok := r.names.disks[number]; ok {
		return name
	}
	return number
}

// readDisks reads names by number from /proc/diskstats. The result is empty if that fails.
func (r *Run) readDisks() map[string]string {
	disks := map[string]string{}
	host, err := r.Host()
	if err != nil {
		return disks
	}
	f, err := host.Open("proc/diskstats")
	if err != nil {
		return disks
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if w := strings.Fields(sc.Text()); len(w) > 2 {
			disks[w[0]+":"+w[1]] = w[2]
		}
	}
	return disks
}

// Meminfo returns the values of /proc/meminfo in bytes by name, such as "MemTotal" and
// "Cached".
func (r *Run) Meminfo() (map[string]uint64, error) {
	host, err := r.Host()
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(host, "proc/meminfo")
	if err != nil {
		return nil, err
	}
	info := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		var kb uint64
		if _, err := fmt.Sscan(rest, &kb); err == nil {
			info[name] = kb << 10
		}
	}
	return info, nil
}

// Loadavg prints the time of day, the machine's load and a blank line, as BCC's tools do
// above a table that is printed repeatedly. With -json it prints nothing.
func (r *Run) Loadavg() error {
	host, err := r.Host()
	if err != nil {
		return err
	}
	load, err := fs.ReadFile(host, "proc/loadavg")
	if err != nil {
		return err
	}
	r.Printf("%s loadavg: %s\n\n", r.Now().Format("15:04:05"), strings.TrimSpace(string(load)))
	return nil
}
