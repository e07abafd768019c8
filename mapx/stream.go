package mapx

// StatsSource is a Source that counts.
type StatsSource interface {
	Source
	// Stats returns the counts so far.
	Stats() (Stats, error)
}
