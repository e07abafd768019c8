package tool

import "github.com/borescope/borescope/probe/tool/cli"

// EndAfter makes the run end after a time, as -d does, for tools that take the time as an
// operand: "5", "5s", "1m". Call it between Parse and Run, or before Parse to set a default.
// An error is a mistake on the command line, as Usagef returns it.
func (t *Tool) EndAfter(time string) (err error) {
	if t.duration, err = parseTime(time); err != nil {
		return cli.Usage(t.name, err)
	}
	return nil
}
