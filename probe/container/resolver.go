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

// Options are the options of New. The zero value and nil describe this machine.
type Options struct {
	// Root is a recorded node's file system; nil is this machine's. With a Root, only ids
	// that were passed to Observe are known. Names are read from Root.
	Root fs.FS
	// Dir is the path of Root on this machine, for a node's file system that is mounted in
	// a container: "/host". It replaces Root.
	Dir string
	// Max is how many groups are remembered; 0 is 16384. The oldest are dropped first.
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

// New returns a Resolver, which reads nothing yet.
func New(o *Options) *Resolver {
	if o == nil {
		o = &Options{}
	}
	r := &Resolver{
		root: o.Root, max: cmp.Or(o.Max, 16384), known: map[uint64]*Info{},
		misses: map[uint64]struct{}{},
	}
	if o.Dir != "" || o.Root == nil {
		r.dir = cmp.Or(o.Dir, "/")
		r.root = procfs.DirFS(r.dir)
	}
	return r
}

// Resolve returns the group with that id: from memory if it was seen before, even if the group
// is gone, else from the machine. It reports false for an unknown id; asking again is cheap.
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

// Observe records that a group was made: its id and path, as in the tracepoint
// cgroup:cgroup_mkdir and in recordings. Names are read at once, since the group may not exist
// for long. A container's name may appear later than its group; Refresh looks for it again.
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

// Refresh looks for names that were missing before.
func (r *Resolver) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.known {
		if i.Container != "" && i.Name == "" || i.PodUID != "" && i.Pod == "" {
			r.name(i)
		}
	}
}

// Scan remembers every existing group, so that it is known after it is gone.
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

// All returns all remembered groups, by path.
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

// mount returns where version 2 is mounted.
func (r *Resolver) mount() (string, error) {
	for _, m := range mounts {
		if r.dir != "" && isCgroup2(path.Join(r.dir, m)) {
			return m, nil
		}
	}
	return "", notexist.Errorf("control groups of version 2 are not mounted on %s",
		path.Join("/", r.dir, mounts[1]))
}

// maxMisses bounds the number of remembered ids that were not found.
const maxMisses = 4096

// find returns a group's path by its id. The caller holds mu.
func (r *Resolver) find(id uint64) (string, error) {
	m, err := r.mount()
	if err != nil {
		return "", err
	}
	p, err := pathByHandle(path.Join(r.dir, m), id)
	if err == nil {
		return p, nil
	}
	if _, again := r.misses[id]; again ||
		!errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
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
				return nil // it was removed meanwhile
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
