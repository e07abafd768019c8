package provider

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/usdtfire"
	"github.com/borescope/borescope/usdt/arg"
)

// UnsupportedError reports that this system can't load probes.
type UnsupportedError = feature.UnsupportedError

// Provider is a named set of probes that are loaded together. It is safe for concurrent use.
type Provider struct {
	name string

	mu     sync.Mutex // guards the fields below except the atomics
	probes []*Probe
	errs   []error
	region usdtfire.Region // where probes are or were mapped
	file   loaded          // what Unload releases
	active bool            // loaded
}

// New returns a provider without probes. Its name may consist of letters, digits, '_', '-' and
// '.', as tracers' command lines expect.
func New(name string) (*Provider, error) {
	if err := usdtfire.CheckName(name); err != nil {
		return nil, fmt.Errorf("provider %q: %w", name, err)
	}
	return &Provider{name: name}, nil
}

// Probe adds a probe with arguments of the given types: at most usdt.MaxArgs,
// where a String counts as two. Two probes of one name are two sites of one
// probe. What is wrong with it is reported by Load; until Load the probe is
// not Enabled and Fire does nothing, and that holds for one that is added
// after Load too, until the next.
func (p *Provider) Probe(name string, args ...arg.Type) *Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	probe := &Probe{fire: usdtfire.Probe{Name: p.name + ":" + name, Types: slices.Clone(args)}}
	err := errors.Join(usdtfire.CheckName(name), usdtfire.Check(args))
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("probe %s: %w", probe.fire.Name, err))
		return probe
	}
	p.probes = append(p.probes, probe)
	return probe
}

// Load makes the probes visible to tracers, in an anonymous file or, if the system has none,
// in a temporary file that Unload removes. It does nothing if they are loaded. The error is an
// *UnsupportedError if probes can't be loaded on this system.
func (p *Provider) Load() error { return p.load("") }

// LoadFile is as Load, with a named file in a directory, for tracers that can't find an
// anonymous one. Unload removes the file; it remains if the process is killed.
func (p *Provider) LoadFile(dir string) error {
	if dir == "" {
		return errors.New("load provider: no directory")
	}
	return p.load(dir)
}

func (p *Provider) load(dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active {
		return nil
	}
	if err := errors.Join(p.errs...); err != nil {
		return err
	}
	if len(p.probes) == 0 {
		return fmt.Errorf("load provider %s: no probes", p.name)
	}
	im, err := p.image()
	if err != nil {
		return fmt.Errorf("load provider %s: %w", p.name, err)
	}
	if err := p.mapImage(im, dir); err != nil {
		return fmt.Errorf("load provider %s: %w", p.name, err)
	}
	for i, probe := range p.probes {
		probe.semaphore.Store((*uint32)(p.region.At(im.semaphore(i))))
		probe.stub.Store(uintptr(p.region.At(im.stub(i))))
	}
	p.active = true
	return nil
}

// Path returns the path by which tracers find the loaded probes, for bpftrace's
// usdt:PATH:PROVIDER:NAME and for uprobe events. It is valid while this process has them
// loaded, and empty if they are not.
func (p *Provider) Path() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active {
		return ""
	}
	return p.file.path
}

// Unload removes the probes. When it returns, tracers are attached to nothing, and Fire does
// nothing. The probes may be loaded again. It does nothing if they are not loaded, and for a nil
// Provider.
//
// Fire and Enabled take no lock, so a page of text and some address space remain for calls that
// are still running, and a tracer may see the end of such a Fire.
func (p *Provider) Unload() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active {
		return nil
	}
	p.active = false
	for _, probe := range p.probes {
		probe.stub.Store(0)
	}
	return p.unmapImage()
}

// loaded holds what is open while probes are loaded.
type loaded struct {
	f      *os.File
	path   string // for tracers
	remove bool   // path is a file of its own
	image  *image
}
