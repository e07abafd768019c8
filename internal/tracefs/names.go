package tracefs

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
)

// Missing returns the error for a tracepoint that does not exist, with near names. dir is
// tracefs's path below root.
func Missing(root fs.FS, dir, group, name string) error {
	groups := Names(root, path.Join(dir, "events"))
	names := Names(root, path.Join(dir, "events", group))
	if names == nil {
		return notexist.Errorf("no tracepoint group %q%s", group,
			groupHint(root, dir, group, name, groups))
	}
	return notexist.Errorf("no tracepoint %q in group %s%s", name, group, near.Hint(name, names))
}

// groupHint returns a hint: groups with a near name, or another group that has the tracepoint.
func groupHint(root fs.FS, dir, group, name string, groups []string) string {
	if hint := near.Hint(group, groups); hint != "" {
		return hint
	}
	for _, g := range groups {
		if _, err := fs.Stat(root, path.Join(dir, "events", g, name, "format")); err == nil {
			return fmt.Sprintf("; group %s has a tracepoint of that name", g)
		}
	}
	return ""
}

// Names returns the names of the subdirectories of a directory, sorted. It returns nil if
// there are none.
func Names(root fs.FS, dir string) []string {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, d := range entries {
		if d.IsDir() {
			out = append(out, d.Name())
		}
	}
	return out
}
