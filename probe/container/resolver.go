package container

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
)

// Options are what a Resolver reads. The zero value, and nil, is this machine.
type Options struct {
	// Root is the node's file system; nil is this machine's. Ids are looked up
	// where its /sys/fs/cgroup is a mounted one; a recording knows those that
	// Observe was told.
	Root fs.FS
	// Dir is where Root is on this machine, for a node's file system that is
	// mounted in a container: "/host". It replaces Root.
	Dir string
	// Max is how many groups are remembered; 0 is 16384. The oldest go
	// first.
	Max int
}

// Resolver resolves ids of control groups. It is safe for concurrent use and
// holds no descriptor.
type Resolver struct {
	root fs.FS
	dir  string // where root is, "" for a recording
	max  int

	mu     sync.Mutex
	known  map[uint64]*Info    // guarded by mu
	order  []uint64            // guarded by mu: of known, oldest first
	misses map[uint64]struct{} // guarded by mu: not found by walking
}

// New makes a Resolver, which reads nothing yet.
func New(o *Options) *Resolver {
	if o == nil {
		o = &Options{}
	}
	r := &Resolver{root: o.Root, max: cmp.Or(o.Max, 16384), known: map[uint64]*Info{}, misses: map[uint64]struct{}{}}
	if o.Dir != "" || o.Root == nil {
		r.dir = cmp.Or(o.Dir, "/")
		r.root = procfs.DirFS(r.dir)
	}
	return r
}

// Resolve says what a group's id stands for: from memory if it was seen before,
// even if the group is gone, else from the machine. It is false for an id that
// is not known; asking again costs little.
func (r *Resolver) Resolve(id uint64) (Info, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.known[id]; i != nil {
		return *i, true
	}
	p, err := r.find(id)
	if err != nil {
		return Info{}, false
	}
	return *r.add(id, p), true
}

// Observe tells that a group was made: its id and path, as the tracepoint
// cgroup:cgroup_mkdir and recordings have them. Names are read at once, since the
// group may not live long; a container's may come later than its group, and are
// looked for again with Refresh.
func (r *Resolver) Observe(id uint64, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.misses, id)
	r.add(id, path)
}

// add remembers a group. The caller holds mu.
func (r *Resolver) add(id uint64, p string) *Info {
	i := Parse(p)
	i.CgroupID = id
	r.name(&i)
	if r.known[id] == nil {
		r.order = append(r.order, id)
	}
	r.known[id] = &i
	for len(r.order) > r.max {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	return &i
}

// Refresh looks for names that were not there yet.
func (r *Resolver) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.known {
		if i.Container != "" && i.Name == "" || i.PodUID != "" && i.Pod == "" {
			r.name(i)
		}
	}
}

// Scan remembers every group that there is now, so that they are known when
// they are gone.
func (r *Resolver) Scan() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.walk(func(id uint64, p string) bool {
		if r.known[id] == nil {
			r.add(id, p)
		}
		return true
	})
}

// All returns what is remembered, by path.
func (r *Resolver) All() []Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Info
	for _, i := range r.known {
		out = append(out, *i)
	}
	slices.SortFunc(out, func(a, b Info) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.CgroupID, b.CgroupID))
	})
	return out
}

// mounts are where version 2 may be mounted.
var mounts = []string{"sys/fs/cgroup/unified", "sys/fs/cgroup"}

// mount finds the mount of version 2.
func (r *Resolver) mount() (string, error) {
	for _, m := range mounts {
		if r.dir != "" && isCgroup2(path.Join(r.dir, m)) {
			return m, nil
		}
	}
	return "", notexist.Errorf("control groups of version 2 are not mounted on %s", path.Join("/", r.dir, mounts[1]))
}

// maxMisses bounds what is remembered of ids that were not found.
const maxMisses = 4096

// find finds a group's path by its id. The caller holds mu.
func (r *Resolver) find(id uint64) (string, error) {
	m, err := r.mount()
	if err != nil {
		return "", err
	}
	p, err := pathByHandle(path.Join(r.dir, m), id)
	if err == nil {
		return p, nil
	}
	if _, again := r.misses[id]; again || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		return "", err
	}
	err = fs.ErrNotExist
	werr := r.walk(func(have uint64, name string) bool {
		if have == id {
			p, err = name, nil
		}
		return err != nil
	})
	if err != nil && len(r.misses) < maxMisses {
		r.misses[id] = struct{}{}
	}
	return p, errors.Join(err, werr)
}

// walk visits all groups until visit returns false.
func (r *Resolver) walk(visit func(id uint64, p string) bool) error {
	m, err := r.mount()
	if err != nil {
		return err
	}
	return fs.WalkDir(r.root, m, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went away meanwhile
			}
			return err
		}
		if !d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		id, ok := inode(info)
		if ok && !visit(id, "/"+strings.TrimPrefix(strings.TrimPrefix(name, m), "/")) {
			return fs.SkipAll
		}
		return nil
	})
}
