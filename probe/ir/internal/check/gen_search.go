package check

import "github.com/borescope/borescope/probe/ir/internal/eval"

// Key tells classes apart.
func (c *globClass) Key() string {
	b := []byte{byte(eval.B2u(c.Negated))}
	for _, r := range c.Ranges {
		b = append(b, r[0], r[1])
	}
	return string(b)
}
