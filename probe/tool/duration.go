package tool

import "github.com/borescope/borescope/probe/tool/cli"

// EndAfter has the run end after a time, as -d does, where a tool takes it as a
// word behind its flags: "5", "5s", "1m". Call it between Parse and Run, or before
// Parse for the time where neither is given.
func (t *Tool) EndAfter(time string) (err error) {
	if t.duration, err = parseTime(time); err != nil {
		return cli.Usage(t.name, err)
	}
	return nil
}
