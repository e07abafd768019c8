package raw

// Supported returns an error if this system has no live maps.
func Supported(string) error { return nil }
