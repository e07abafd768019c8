//go:build !linux

package probe

func mapBTF() ([]byte, func(), bool) { return nil, nil, false }
