package probe

import "github.com/borescope/borescope/internal/notexist"

// notFound says in its own words that something does not exist, and matches
// fs.ErrNotExist without repeating that.
func notFound(format string, args ...any) error { return notexist.Errorf(format, args...) }
