package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/deploy"
)

var errNotExist = fs.ErrNotExist

// grant is one request while it is carried out. It holds what is needed only until the
// answer is sent.
type grant struct {
	rule  *Rule
	offer *Offer
	a     *attachment
	plan  *probe.Plan
	spec  *ebpf.CollectionSpec

	sites int
	names []string // of the maps
	maps  []int    // their descriptors
	links []*os.File
	coll  *ebpf.Collection // with HandOver
	link  *probe.Link      // with HandOver
}

// carryOut loads and attaches.
func (g *grant) carryOut(commons *commons) error {
	if g.rule.HandOver {
		return g.handOver()
	}
	var err error
	g.a.perSecond = g.rule.eventsPerSecond()
	o := &deploy.UserOptions{EventsPerSecond: g.a.perSecond}
	var how *probe.AttachOptions
	if g.a.gate != nil {
		how = attachOptions(g.rule.Kernel)
	}
	if g.a.common, g.a.share, err = commons.join(g.plan, g.spec, how, o); err != nil {
		return err
	}
	g.sites = len(g.a.common.mux.Link().Sites())
	return g.openMaps(g.a.share.Map)
}

// handOver attaches directly; the client will own the links.
func (g *grant) handOver() error {
	var err error
	if g.coll, err = probe.LoadCollection(g.spec,
		ebpf.CollectionOptions{Cache: g.plan.Cache}); err != nil {
		return err
	}
	if g.link, err = g.plan.Attach(g.coll.Programs, nil); err != nil {
		return err
	}
	if g.links, err = g.link.Files(); err != nil {
		return err
	}
	for _, p := range g.coll.Programs {
		info, err := p.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		g.a.progs = append(g.a.progs, id)
	}
	g.sites = len(g.link.Sites())
	return g.openMaps(func(name string) *ebpf.Map { return g.coll.Maps[name] })
}

// openMaps opens the descriptors for the client.
func (g *grant) openMaps(find func(string) *ebpf.Map) error {
	names := slices.Clone(g.offer.Maps)
	if names == nil {
		for name := range g.spec.Maps {
			if !isOwn(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	for _, name := range names {
		m := find(name)
		if m == nil {
			return fmt.Errorf("the offer has no map %s", name)
		}
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		id, _ := info.ID()
		g.a.maps = append(g.a.maps, id)
		writable := m.Type() == ebpf.RingBuf || slices.Contains(g.offer.Writable, name)
		fd, err := openMap(m, writable)
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		g.names, g.maps = append(g.names, name), append(g.maps, fd)
	}
	return nil
}

// files returns the descriptors to send: maps, then links.
func (g *grant) files() ([]int, error) {
	out := slices.Clone(g.maps)
	for _, f := range g.links {
		out = append(out, int(f.Fd()))
	}
	if most := maxFiles * maxParts; len(out) > most {
		return nil, fmt.Errorf("%d descriptors, %d can be handed over", len(out), most)
	}
	return out, nil
}

// close closes what the client now has its own descriptors for.
func (g *grant) close() error {
	errs := []error{closeFiles(g.maps), g.link.Close()}
	for _, f := range g.links {
		errs = append(errs, f.Close())
	}
	if g.coll != nil {
		g.coll.Close()
	}
	return errors.Join(errs...)
}
