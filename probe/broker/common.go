package broker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// common is one set of attachments, for every client that asked for the same.
type common struct {
	key    string // "" if nobody else may join
	shared *probe.Shared
	users  int // guarded by commons.mu
}

// commons are the attachments that further clients may join.
type commons struct {
	mu sync.Mutex
	of map[string][]*common // guarded by mu: by key, those that are open
}

// join has the programs of spec run at the plan's sites: in attachments that are
// there already, if another client asked for the same, or else in new ones.
func (c *commons) join(plan *probe.Plan, spec *ebpf.CollectionSpec, o *probe.ShareOptions) (*common, *probe.Share, error) {
	key := commonKey(plan)
	if key == "" {
		m := &common{users: 1}
		share, err := m.open(plan, spec, o)
		return m, share, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.of[key] {
		if m.users < probe.MaxShares {
			share, err := m.shared.Join(spec, o)
			if err == nil {
				m.users++
			}
			return m, share, err
		}
	}
	m := &common{key: key, users: 1}
	share, err := m.open(plan, spec, o)
	if err != nil {
		return nil, nil, err
	}
	if c.of == nil {
		c.of = map[string][]*common{}
	}
	c.of[key] = append(c.of[key], m)
	return m, share, nil
}

// open attaches, for the first user.
func (m *common) open(plan *probe.Plan, spec *ebpf.CollectionSpec, o *probe.ShareOptions) (*probe.Share, error) {
	var err error
	if m.shared, err = plan.Share(nil); err != nil {
		return nil, err
	}
	share, err := m.shared.Join(spec, o)
	if err != nil {
		return nil, errors.Join(err, m.shared.Close())
	}
	return share, nil
}

// leave ends one user's part, and with the last the attachments.
func (c *commons) leave(m *common, share *probe.Share) error {
	err := share.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.users--; m.users > 0 {
		return err
	}
	if left := slices.DeleteFunc(c.of[m.key], func(o *common) bool { return o == m }); len(left) > 0 {
		c.of[m.key] = left
	} else {
		delete(c.of, m.key)
	}
	return errors.Join(err, m.shared.Close())
}

// commonKey is equal for plans whose attachments are the same. It is empty for
// those that end with something that the plan only names by number, and that
// another may come after: a process, a module, a CPU.
func commonKey(plan *probe.Plan) string {
	b, err := plan.MarshalJSON()
	if err != nil {
		return ""
	}
	var key strings.Builder
	key.Write(b)
	for i := range plan.Programs {
		for _, s := range plan.Programs[i].Sites {
			if s.PID != 0 || s.CPU >= 0 || s.Module != "" && s.Module != "vmlinux" {
				return ""
			}
			if s.Path == "" {
				continue
			}
			// The next version of a program may have the same plan.
			id, err := fileID(s.Path)
			if err != nil {
				return ""
			}
			fmt.Fprintf(&key, " %s", id)
		}
	}
	return key.String()
}

// fileID tells a file from what has the same path later.
func fileID(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return inodeOf(st) + st.ModTime().String(), nil
}
