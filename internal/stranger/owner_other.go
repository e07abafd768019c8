//go:build !linux

package stranger

import "io/fs"

type self struct{}

// Owner is nobody to beware of: processes can be looked at on Linux only.
func (s *Share) Owner(int, fs.FileInfo) Owner { return Owner{} }
