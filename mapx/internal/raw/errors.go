package raw

import "errors"

// ErrNoMap is what comes of a name that a collection does not have.
var ErrNoMap = errors.New("no map: it is nil (has the collection one of that name?)")
