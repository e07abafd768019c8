package tool

// UserNames names a user stack that a program kept with Ctx.Ustack, innermost
// first, as StackSample does; the first 0 ends it. Of a process that has ended
// and was not observed before (Observe), no frame has a name.
func (s *Session) UserNames(pid int, pcs []uint64) ([]string, error) { return s.pcNames(pid, pcs) }

// KernelNames is UserNames for Ctx.Kstack.
func (s *Session) KernelNames(pcs []uint64) ([]string, error) { return s.pcNames(kernelPID, pcs) }

func (s *Session) pcNames(pid int, pcs []uint64) (names []string, err error) {
	resolver, err := s.resolver(pid)
	if err != nil {
		return nil, err
	}
	for i, pc := range pcs {
		if pc == 0 {
			break
		}
		if resolver == nil {
			names = append(names, "[unknown]")
			continue
		}
		back := uint64(0)
		if i > 0 {
			back = 1 // a return address may be the next function's first
		}
		names = append(names, s.frameNames(resolver.Resolve(nil, []uint64{pc - back}), back)...)
	}
	return names, nil
}
