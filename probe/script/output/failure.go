package output

import (
	"fmt"
	"syscall"
)

// MapFullHint is what helps against a map that is full.
const MapFullHint = "Try increasing max_map_keys config or manually setting the max entries in a map declaration e.g. " +
	"`let @a = hash(5000)`"

// Failure says that a helper of the kernel failed at a place of the script, with the error that it
// returned: in JSON a line like others, else the text of a warning for standard error.
func (p *Printer) Failure(helper string, code int64, file string, line, column int) (text string, err error) {
	text = strerror(-code)
	if p.o.JSON {
		b := append(p.b[:0], `{"type": "helper_error", "msg": `...)
		b = append(appendText(b, text), `, "helper": `...)
		b = fmt.Appendf(appendText(b, helper), `, "retcode": %d, "filename": `, code)
		p.b = fmt.Appendf(appendText(b, file), ", \"line\": %d, \"col\": %d}\n", line, column)
		return "", p.write(p.b)
	}
	switch {
	case helper == "map_lookup_elem":
		text = "Can't lookup map element because it does not exist."
	case helper == "map_update_elem" && code == -int64(syscall.E2BIG):
		text = "Map full; can't update element. " + MapFullHint
	}
	return fmt.Sprintf("%s\nAdditional Info - helper: %s, retcode: %d", text, helper, code), nil
}
