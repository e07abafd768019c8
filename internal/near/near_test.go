package near_test

import (
	"testing"

	"github.com/borescope/borescope/internal/near"
)

func TestHint(t *testing.T) {
	among := []string{"vfs_read", "vfs_readv", "vfs_write", "do_exit", "MEM_LOAD_RETIRED.L1_MISS", "vfs_read"}
	for name, want := range map[string]string{
		"vfs_raed":         `; did you mean "vfs_read" or "vfs_readv"?`,
		"vfs_red":          `; did you mean "vfs_read" or "vfs_readv"?`,
		"zzz":              "",
		"":                 "",
		"vfs_read":         `; did you mean "vfs_readv"?`,
		"VFS_WRITE":        `; did you mean "vfs_write"?`,
		"MEM_LOAD_RETIRED": `; did you mean "MEM_LOAD_RETIRED.L1_MISS"?`,
		"vfs":              "",
		"vfs_":             `; did you mean "vfs_read" or "vfs_readv" or "vfs_write"?`,
		"od_exit":          `; did you mean "do_exit"?`,
	} {
		if got := near.Hint(name, among); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
