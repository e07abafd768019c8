//go:build !linux

package privileges

import "github.com/borescope/borescope/internal/feature"

func keep([]feature.Cap) error { return nil }
