package broker

import (
	"errors"
	"slices"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/deploy"
)

// common is one set of attachments, for all clients that asked for the same.
type common struct {
	key   string // "" if no other client may join
	users int    // guarded by commons.mu: those that joined, or are about to

	mu  sync.Mutex // held while attaching, joining and leaving
	mux *deploy.Mux
}

// commons are the attachments that further clients may join. Its lock is held only while
// looking there.
type commons struct {
	mu sync.Mutex
	of map[string][]*common // guarded by mu: by key
}

// enter finds attachments with room for one more, or begins new ones.
func (c *commons) enter(key string) *common {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.of[key] {
		if m.users < deploy.MaxUsers {
			m.users++
			return m
		}
	}
	m := &common{key: key, users: 1}
	if key != "" {
		if c.of == nil {
			c.of = map[string][]*common{}
		}
		c.of[key] = append(c.of[key], m)
	}
	return m
}

// exit undoes enter. The last user may close the attachments.
func (c *commons) exit(m *common) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.users--; m.users > 0 {
		return false
	}
	if left := slices.DeleteFunc(c.of[m.key], func(o *common) bool { return o == m }); len(left) > 0 {
		c.of[m.key] = left
	} else {
		delete(c.of, m.key)
	}
	return true
}

// join runs the programs of spec at the plan's sites: in existing attachments, if another
// client asked for the same, or else in new ones. how is for new ones: those of own processes
// have no other client.
func (c *commons) join(plan *probe.Plan, spec *ebpf.CollectionSpec, how *probe.AttachOptions,
	o *deploy.UserOptions,
) (*common, *deploy.User, error) {
	m := c.enter(commonKey(plan))
	share, err := m.join(plan, spec, how, o)
	if err != nil {
		return nil, nil, errors.Join(err, c.leave(m, nil))
	}
	return m, share, nil
}

func (m *common) join(plan *probe.Plan, spec *ebpf.CollectionSpec, how *probe.AttachOptions,
	o *deploy.UserOptions,
) (*deploy.User, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mux == nil {
		mux, err := deploy.Share(plan, how)
		if err != nil {
			return nil, err
		}
		m.mux = mux
	}
	return m.mux.Join(spec, o)
}

// leave ends one user's part, and after the last user's the attachments.
func (c *commons) leave(m *common, share *deploy.User) error {
	err := share.Close()
	if !c.exit(m) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(err, m.mux.Close())
}

// commonKey returns a key that is equal for plans whose attachments are the same. It is
// empty for plans with something that ends, and whose number something else may get
// later: a process, a module, a CPU.
func commonKey(plan *probe.Plan) string {
	b, err := plan.MarshalJSON()
	if err != nil {
		return ""
	}
	for i := range plan.Programs {
		for _, s := range plan.Programs[i].Sites {
			if s.PID != 0 || s.CPU >= 0 || s.Module != "" && s.Module != "vmlinux" {
				return ""
			}
			if _, ok := plan.Files[s.Path]; !ok && s.Path != "" {
				return "" // a newer version of the program may be there by now
			}
		}
	}
	return string(b)
}
