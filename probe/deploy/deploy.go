package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
)

// ErrIncompatible is matched by Deploy's error if the deployment in the directory can't
// continue with the new programs, because sites or layouts of maps differ.
var ErrIncompatible = errors.New("incompatible with what is deployed there")

// Options are the options of Deploy. The zero value and nil are the defaults.
type Options struct {
	// Layouts describe the meaning of maps' keys and values, by the map's name, where
	// MapSpec.Key and MapSpec.Value do not: for example a spelling of the Go types, or a
	// version. Two programs share a map if their texts are equal.
	Layouts map[string]string
	// Attach are the options for attaching the plan the first time.
	Attach *probe.AttachOptions
	// Collection are the options for loading programs and maps. MapReplacements remain
	// private to this version.
	Collection ebpf.CollectionOptions
}

// Deployment is an attached plan in a directory of a BPF file system, with the maps of its
// programs. The attachments outlive the process. The next process, or the next version of
// the program, takes them over by Deploy.
//
// A Deployment is safe for concurrent use; its maps are as safe as cilium/ebpf's are.
type Deployment struct {
	dir     string
	adopted bool
	coll    *ebpf.Collection
}

// Deploy attaches the plan with programs and maps made from spec, and pins all of it in a new
// directory. If the plan is deployed there already, by any process, Deploy adopts the maps
// with their contents and swaps the programs in place.
//
// Swapping loses no event, and no event is seen twice: the attached program passes its
// context on by a tail call, and the new program replaces the old one in a prog array at
// once. In a plan with several programs they are swapped one after the other.
//
// Maps are adopted by name. Their layouts must agree: type, sizes, entries, flags, the types
// of keys and values if spec has them, and Options.Layouts. If anything differs, the error
// matches ErrIncompatible and names it, and nothing has changed. Maps with contents of their
// own (constants) belong to a version and are not pinned. Maps that only the new version has
// are added, those that only the old one had are removed.
//
// It needs Linux 5.15 for probes and 5.10 for other targets: attachments that no bpf_link
// owns cannot be pinned. An existing directory must belong to this user, and no other user
// may write to it. The caller closes the Deployment, which leaves everything attached; Remove
// detaches it.
func Deploy(dir string, plan *probe.Plan, spec *ebpf.CollectionSpec, o *Options) (*Deployment,
	error,
) {
	if o == nil {
		o = &Options{}
	}
	fail := func(err error) (*Deployment, error) { return nil, fmt.Errorf("deploy %s: %w", dir, err) }
	if plan == nil || spec == nil {
		return fail(errors.New("no plan, or no collection"))
	}
	for i := range plan.Programs {
		g := &plan.Programs[i]
		if err := shareable(g); err != nil {
			return fail(err)
		}
		if spec.Programs[g.Name] == nil {
			return fail(fmt.Errorf("%s: the plan's program %s is not among those given", g.Place(), g.Name))
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	want := newRecord(plan, spec, o)
	have, err := readRecord(dir)
	var d *Deployment
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d, err = deployNew(dir, plan, spec, o, want)
	case err == nil:
		d, err = deployAgain(dir, plan, spec, o, have, want)
	}
	if err != nil {
		return fail(err)
	}
	return d, nil
}

// deployNew attaches. The record makes a deployment complete: it is written last, and what a
// killed process left without one is removed.
func deployNew(dir string, plan *probe.Plan, spec *ebpf.CollectionSpec, o *Options,
	rec *record,
) (*Deployment, error) {
	if err := clearDir(dir); err != nil {
		return nil, err
	}
	d := &Deployment{dir: dir}
	err := d.install(plan, spec, o, rec)
	if err != nil {
		return nil, errors.Join(err, d.Close(), clearDir(dir), os.Remove(dir))
	}
	return d, nil
}

func (d *Deployment) install(plan *probe.Plan, spec *ebpf.CollectionSpec, o *Options,
	rec *record,
) error {
	var err error
	if d.coll, err = probe.LoadCollection(spec, cached(plan, o.Collection)); err != nil {
		return err
	}
	s := &Mux{plan: plan}
	defer s.Close() // what is pinned stays
	stubs, err := s.dispatchers(1)
	defer closePrograms(stubs)
	if err != nil {
		return err
	}
	for i, m := range s.slots {
		if err := m.Put(uint32(0), d.coll.Programs[plan.Programs[i].Name]); err != nil {
			return fmt.Errorf("%s: %w", plan.Programs[i].Place(), err)
		}
	}
	if s.link, err = plan.Attach(stubs, o.Attach); err != nil {
		return err
	}
	if err := s.link.Pin(filepath.Join(d.dir, "links")); err != nil {
		return err
	}
	for _, sub := range []string{"maps", "slots"} {
		if err := os.Mkdir(filepath.Join(d.dir, sub), 0o700); err != nil {
			return err
		}
	}
	for i, m := range s.slots {
		if err := m.Pin(slotPath(d.dir, i)); err != nil {
			return err
		}
	}
	for name := range rec.Maps {
		if err := d.coll.Maps[name].Pin(mapPath(d.dir, name)); err != nil {
			return fmt.Errorf("map %s: pin: %w", name, err)
		}
	}
	return rec.write(d.dir)
}

func slotPath(dir string, i int) string { return filepath.Join(dir, "slots", strconv.Itoa(i)) }

// mapPath returns where a map is pinned: BPF file systems allow no dots in names.
func mapPath(dir, name string) string {
	return filepath.Join(dir, "maps", strings.ReplaceAll(name, ".", "~"))
}

// deployAgain adopts the maps and swaps the programs.
func deployAgain(dir string, plan *probe.Plan, spec *ebpf.CollectionSpec, o *Options, have,
	want *record,
) (*Deployment, error) {
	if err := have.differs(want, plan); err != nil {
		return nil, fmt.Errorf("%w: %w; Remove makes room for it", ErrIncompatible, err)
	}
	d := &Deployment{dir: dir, adopted: true}
	if err := d.load(plan, spec, o, have); err != nil {
		return nil, err
	}
	for name := range want.Maps {
		if _, ok := have.Maps[name]; ok {
			continue
		}
		os.Remove(mapPath(dir, name)) // left by a process that was killed before it wrote its record
		if err := d.coll.Maps[name].Pin(mapPath(dir, name)); err != nil {
			return nil, errors.Join(fmt.Errorf("map %s: pin: %w", name, err), d.Close())
		}
	}
	if err := d.swap(plan); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := want.write(dir); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	for name := range have.Maps {
		if _, ok := want.Maps[name]; !ok {
			os.Remove(mapPath(dir, name))
		}
	}
	return d, nil
}

// load loads the new version with the pinned maps.
func (d *Deployment) load(plan *probe.Plan, spec *ebpf.CollectionSpec, o *Options,
	have *record,
) error {
	co := cached(plan, o.Collection)
	replace := map[string]*ebpf.Map{}
	for name, m := range co.MapReplacements {
		replace[name] = m
	}
	for name := range spec.Maps {
		if _, ok := have.Maps[name]; !ok || private(spec.Maps[name]) {
			continue
		}
		m, err := ebpf.LoadPinnedMap(mapPath(d.dir, name), nil)
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		defer m.Close()
		replace[name] = m
	}
	co.MapReplacements = replace
	var err error
	d.coll, err = probe.LoadCollection(spec, co)
	return err
}

// swap puts the new programs into the slots, all of them or none.
func (d *Deployment) swap(plan *probe.Plan) error {
	var undo []func() error
	defer func() {
		for _, f := range undo {
			f()
		}
	}()
	for i := range plan.Programs {
		g := &plan.Programs[i]
		m, err := ebpf.LoadPinnedMap(slotPath(d.dir, i), nil)
		if err != nil {
			return fmt.Errorf("%s: %w", g.Place(), err)
		}
		defer m.Close()
		var id uint32
		if err := m.Lookup(uint32(0), &id); err == nil {
			undo = append(undo, func() error { return putBack(m, ebpf.ProgramID(id)) })
		}
		if err := m.Put(uint32(0), d.coll.Programs[g.Name]); err != nil {
			return fmt.Errorf("%s: swap the program: %w", g.Place(), err)
		}
	}
	undo = nil
	return nil
}

// putBack restores a slot's program, which exists as long as it is in the slot.
func putBack(m *ebpf.Map, id ebpf.ProgramID) error {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	defer p.Close()
	return m.Put(uint32(0), p)
}

// Map returns a map of the programs by its name, nil if there is none. If it was adopted, an
// earlier process made it. The Deployment owns it.
func (d *Deployment) Map(name string) *ebpf.Map { return d.coll.Maps[name] }

// Adopted reports whether the plan was deployed already.
func (d *Deployment) Adopted() bool { return d.adopted }

// Link returns the attachments, for their statistics. The caller closes the Link, which
// detaches nothing.
func (d *Deployment) Link() (*probe.Link, error) {
	return probe.OpenPinned(filepath.Join(d.dir, "links"))
}

// Close closes the descriptors. The probes remain attached. It may be called again, and on a
// nil Deployment.
func (d *Deployment) Close() error {
	if d != nil && d.coll != nil {
		d.coll.Close()
	}
	return nil
}

// Remove detaches what Deploy attached and removes its directory.
func Remove(dir string) error {
	unlock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("remove deployment %s: %w", dir, err)
	}
	defer unlock()
	if err := errors.Join(clearDir(dir), os.Remove(dir)); err != nil {
		return fmt.Errorf("remove deployment %s: %w", dir, err)
	}
	return nil
}

// clearDir removes everything that Deploy puts into its directory, the record first.
func clearDir(dir string) error {
	var errs []error
	remove := func(name string) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	remove(filepath.Join(dir, recordName))
	remove(filepath.Join(dir, recordName+"~"))
	if err := probe.Unpin(filepath.Join(dir, "links")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, sub := range []string{"slots", "maps"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			continue // it was not made
		}
		for _, e := range entries {
			remove(filepath.Join(dir, sub, e.Name()))
		}
		remove(filepath.Join(dir, sub))
	}
	return errors.Join(errs...)
}

// recordName is the pinned array that holds the record, because BPF file systems can't hold
// ordinary files.
const recordName = "record"

// record describes a deployment.
type record struct {
	Plan json.RawMessage      `json:"plan"`
	Maps map[string]mapLayout `json:"maps"`
}

func newRecord(plan *probe.Plan, spec *ebpf.CollectionSpec, o *Options) *record {
	rec := &record{Maps: map[string]mapLayout{}}
	for name, m := range spec.Maps {
		if !private(m) && o.Collection.MapReplacements[name] == nil {
			rec.Maps[name] = layoutOf(m, o.Layouts[name])
		}
	}
	// plain data; only a Target of another package could fail, and there is none
	rec.Plan, _ = json.Marshal(plan)
	return rec
}

// private reports whether a map belongs to one version of the programs: constants.
func private(m *ebpf.MapSpec) bool {
	const readOnlyForPrograms = 1 << 7 // BPF_F_RDONLY_PROG
	return len(m.Contents) > 0 || m.Flags&readOnlyForPrograms != 0
}

// differs compares the deployed record with the wanted one.
func (r *record) differs(want *record, plan *probe.Plan) error {
	var old probe.Plan
	if err := json.Unmarshal(r.Plan, &old); err != nil {
		return err
	}
	if diff := old.Diff(plan); len(diff) > 0 {
		return fmt.Errorf("the plan is another one: %s", strings.Join(diff[:min(len(diff), 4)], ", "))
	}
	for i := range plan.Programs {
		for j := range plan.Programs[i].Sites {
			if a, b := old.Programs[i].Sites[j].Cookie, plan.Programs[i].Sites[j].Cookie; a != b {
				return fmt.Errorf("%s has the cookie %#x there, %#x here", plan.Programs[i].Sites[j].Target,
					uint64(a), uint64(b))
			}
		}
	}
	var names []string
	for name := range want.Maps {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		have, ok := r.Maps[name]
		if !ok {
			continue
		}
		if err := have.differs(want.Maps[name]); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return nil
}

// write pins the record, replacing an existing one.
func (r *record) write(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	size := (len(b) + 7) &^ 7
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "record", Type: ebpf.Array, KeySize: 4,
		ValueSize: uint32(size), MaxEntries: 1,
	})
	if err != nil {
		return fmt.Errorf("record of %d bytes: %w", size, err)
	}
	defer m.Close()
	b = append(b, strings.Repeat(" ", size-len(b))...)
	if err := m.Put(uint32(0), b); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	next := filepath.Join(dir, recordName+"~")
	os.Remove(next)
	if err := m.Pin(next); err != nil {
		return fmt.Errorf("record: pin: %w", err)
	}
	return os.Rename(next, filepath.Join(dir, recordName))
}

func readRecord(dir string) (*record, error) {
	name := filepath.Join(dir, recordName)
	if _, err := os.Stat(name); err != nil {
		return nil, err
	}
	m, err := ebpf.LoadPinnedMap(name, nil)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	defer m.Close()
	b, err := m.LookupBytes(uint32(0))
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	rec := &record{}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return rec, nil
}
