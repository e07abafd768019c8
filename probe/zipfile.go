package probe

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/probe/internal/userfile"
)

// rebase turns the group's sites in files of archives into sites in the archives: these
// are what processes have mapped and where the kernel puts probes.
func (r *resolver) rebase() error {
	bases := map[string]uint64{}
	for i := range r.parts {
		for j := range r.parts[i].Sites {
			s := &r.parts[i].Sites[j]
			if !strings.Contains(s.Path, userfile.ZipSeparator) {
				continue
			}
			archive, _, ok := userfile.CutZip(r.env, s.Path)
			if !ok {
				continue
			}
			base, known := bases[s.Path]
			if !known {
				_, at, c, err := userfile.OpenAt(r.env, r.sources(), s.Path)
				if err != nil {
					return fmt.Errorf("resolve %s: %w", s.Target, err)
				}
				c.Close()
				base, bases[s.Path] = at, at
			}
			s.Path, s.Offset = archive, s.Offset+base
			if s.RefCtrOffset != 0 {
				s.RefCtrOffset += base
			}
		}
	}
	return nil
}
