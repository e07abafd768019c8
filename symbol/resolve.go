package symbol

import (
	"cmp"
	"container/list"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// Resolve implements Resolver for the process's addresses.
func (p *Process) Resolve(dst []Frame, pcs []uint64) []Frame {
	return State{p: p, from: timeless, to: timeless}.Resolve(dst, pcs)
}

// resolve names addresses by the mappings that find returns, which reports whether the address may
// have been in others.
func (p *Process) resolve(dst []Frame, pcs []uint64, find func(pc uint64) (m *mapping, changed bool)) []Frame {
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	p.ps.reads(p)
	for i, pc := range pcs {
		m, changed := find(pc)
		if m == nil && p.mayReread() {
			m, changed = find(pc)
		}
		if changed {
			dst = append(dst, Frame{Index: i, ModuleOffset: pc, Kind: KindUser, Reason: ReasonChanged})
			continue
		}
		dst = p.append(dst, i, pc, m)
	}
	if len(pcs) >= manyAddresses {
		p.releasePages()
	}
	p.ps.trim()
	return dst
}

// FilePlace returns where an address is in a file of the process, wherever that is mapped elsewhere:
// the file's GNU build-id in lower-case hex and the offset in the file in bytes. ok reports whether
// the address is of a file that has a build-id.
func (p *Process) FilePlace(pc uint64) (buildID string, offset uint64, ok bool) {
	return State{p: p, from: timeless, to: timeless}.FilePlace(pc)
}

// FilePlace is Process.FilePlace for an address of the State's time.
func (st State) FilePlace(pc uint64) (buildID string, offset uint64, ok bool) {
	p := st.p
	if p == nil {
		return "", 0, false
	}
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	p.ps.reads(p)
	defer p.ps.trim()
	m, changed := st.find(pc)
	if m == nil && p.mayReread() {
		m, changed = st.find(pc)
	}
	if changed || m == nil || m.img == nil {
		return "", 0, false
	}
	e := p.elf(m)
	if e == nil || e.buildID == "" {
		return "", 0, false
	}
	return e.buildID, pc - m.start + m.offset, true
}

// manyAddresses is the size of a batch that is worth giving pages back after.
const manyAddresses = 16

// releasePages lets the kernel reclaim the pages of mapped files that the last batch read. The
// files of many processes would otherwise add up to far more resident memory than the tables,
// which are what the budget bounds.
func (p *Process) releasePages() {
	for _, e := range p.ps.touched {
		if e.refs > 0 {
			e.f.ReleaseAll()
		}
	}
}

func (p *Process) append(dst []Frame, index int, pc uint64, m *mapping) []Frame {
	if m == nil {
		return append(dst, Frame{Index: index, ModuleOffset: pc, Kind: KindUser, Reason: p.unmapped()})
	}
	if m.img == nil {
		return p.appendMemory(dst, index, pc, m)
	}
	e := p.elf(m)
	if e == nil {
		fr := Frame{
			Index: index, Module: m.path, ModuleOffset: pc - m.start + m.offset,
			Kind: KindUser, Reason: m.img.reason,
		}
		p.nameJIT(&fr, pc) // compilers map files of memory twice, to write and to execute
		return append(dst, fr)
	}
	n := len(dst)
	dst = e.append(dst, index, pc-m.bias)
	for i := n; i < len(dst); i++ {
		dst[i].Module = m.path
		if m.img.isVDSO() && dst[i].Kind == KindUser {
			dst[i].Kind = KindVDSO
		}
	}
	return dst
}

// elf returns the file of a mapping, with the mapping's bias known; nil if the file cannot
// be read.
func (p *Process) elf(m *mapping) *ELF {
	p.ps.use(m.img)
	if m.img.elf == nil {
		p.loadImage(m)
	}
	e := m.img.elf
	if e != nil {
		p.ps.touch(e)
	}
	if e != nil && !m.biasKnown {
		m.bias, m.biasKnown = elffile.Bias(e.f.Progs, m.start, m.offset, m.end-m.start, m.exec,
			p.biasBefore(m, e))
		if !m.biasKnown {
			m.bias, m.biasKnown = m.start-m.offset, true // no segments: use offsets
		}
	}
	return e
}

// biasBefore returns the bias of the same file's executable mapping before another,
// 0 if there is none.
func (p *Process) biasBefore(m *mapping, e *ELF) uint64 {
	i, _ := slices.BinarySearchFunc(p.maps, m.start, func(m mapping, addr uint64) int {
		return cmp.Compare(m.start, addr)
	})
	for n := 0; i > 0 && n < 8; n++ {
		i--
		if o := &p.maps[i]; o.img == m.img && o.exec {
			bias, _ := e.f.Bias(o.start, o.offset, o.end-o.start, true)
			return bias
		}
	}
	return 0
}

// mayReread reads the mappings again if the process lives and they were not read a moment
// ago.
func (p *Process) mayReread() bool {
	if p.exited || p.ps.closed || p.ps.now().Sub(p.read) < p.gap(missGap) {
		return false
	}
	st, err := procfs.ReadStat(p.ps.root, p.pid)
	if err != nil || st.StartTime != p.start {
		p.exited = true
		return false
	}
	return p.refresh() == nil
}

// unmapped returns the reason for an address in no mapping.
func (p *Process) unmapped() Reason {
	if p.cut {
		return ReasonBudget
	}
	if p.exited && len(p.maps) == 0 {
		return ReasonExited
	}
	return ReasonNoMapping
}

// appendMemory names an address in memory that is no file's.
func (p *Process) appendMemory(dst []Frame, index int, pc uint64, m *mapping) []Frame {
	fr := Frame{
		Index: index, Module: m.path, ModuleOffset: pc, Kind: KindUser,
		Reason: ReasonAnonymous,
	}
	if m.path == "[uprobes]" || m.path == "[vsyscall]" {
		return append(dst, fr)
	}
	p.nameJIT(&fr, pc)
	return append(dst, fr)
}

const vdsoPrefix = "[vdso]"

func (img *image) isVDSO() bool { return strings.HasPrefix(img.key.path, vdsoPrefix) }

// vdsoName returns the name of a vdso by the width of its process: that of a 32-bit process is
// below 4 GiB.
func vdsoName(m *procfs.Mapping) string {
	if m.End <= 1<<32 {
		return vdsoPrefix + "32"
	}
	return vdsoPrefix
}

// loadImage makes the ELF of a mapping's image. It retries a file that could not be opened, but
// not for each of many addresses: another process that maps it may be permitted to.
func (p *Process) loadImage(m *mapping) {
	img := m.img
	if img.reason == ReasonBadFile || img.reason == ReasonAnonymous || img.tried == p.ps.tick {
		return
	}
	img.tried = p.ps.tick
	pm := &procfs.Mapping{
		Start: m.start, End: m.end, Offset: m.offset, Path: m.path, Deleted: m.deleted,
		Dev: img.key.dev, Inode: img.key.inode,
	}
	if img.isVDSO() {
		p.loadVDSO(img, pm)
		return
	}
	p.load(img, pm)
}

// maxVDSO is far above any vdso's size.
const maxVDSO = 1 << 20

// loadVDSO reads the vdso from the target's memory, or from this process's, which has the same
// one.
func (p *Process) loadVDSO(img *image, m *procfs.Mapping) {
	ps, pid := p.ps, p.pid
	img.reason = ReasonNoFile
	size := m.End - m.Start
	if !ps.live || size > maxVDSO {
		return
	}
	b := make([]byte, size)
	if procfs.ReadMemory(pid, b, m.Start) != nil {
		if b = ownVDSO(size); b == nil {
			return
		}
	}
	ef, err := elffile.NewBytes(b)
	if err != nil {
		img.reason = ReasonBadFile
		return
	}
	img.reason = ReasonNone
	ps.adopt(img, p, ef)
}

// partOf is the part of a number that a process may have where others need some too.
func (ps *Processes) partOf(n int) int { return max(n/4, 1) }

// oldest returns what is to go for a process: what it uses itself, if that is its part, else
// what was used longest ago.
func (ps *Processes) oldest(all, own *list.List, most int) *image {
	if own.Len() >= ps.partOf(most) {
		all = own
	}
	return all.Front().Value.(*image)
}

// limitFiles closes files until one more may be opened for a process. What is mapped stays
// mapped.
func (ps *Processes) limitFiles(p *Process) {
	for ps.held.Len() >= ps.opts.MaxFiles {
		img := ps.oldest(&ps.held, &p.held, ps.opts.MaxFiles)
		img.dropped = true
		if img.elf != nil && img.elf.f.Mapped() {
			ps.closeFile(img)
		} else {
			ps.release(img)
		}
	}
}

// maxMapped is the most files that are mapped, if not more may be open. The process may have
// 65,530 mappings (vm.max_map_count).
const maxMapped = 4096

// limitMapped unmaps files until one more may be mapped for a process.
func (ps *Processes) limitMapped(p *Process) {
	most := max(ps.opts.MaxFiles, maxMapped)
	for ps.mapped.Len() >= most {
		ps.unmap(ps.oldest(&ps.mapped, &p.mapped, most))
	}
}

// use notes that an image is used now.
func (ps *Processes) use(img *image) {
	if img.held.all != nil {
		ps.held.MoveToBack(img.held.all)
		img.opener.held.MoveToBack(img.held.own)
	}
	if img.mapped.all != nil {
		ps.mapped.MoveToBack(img.mapped.all)
		img.opener.mapped.MoveToBack(img.mapped.own)
	}
}
