package perfring

// What read(2) of an event gives (enum perf_event_read_format).
const (
	FormatEnabled uint64 = 1 << iota
	FormatRunning
	FormatID
	FormatGroup
	FormatLost // 6.0
)

// What a sample holds (enum perf_event_sample_format).
const (
	SampleIP uint64 = 1 << iota
	SampleTID
	SampleTime
	SampleAddr
	SampleReadGroup
	SampleCallchain
	SampleIDMoved
	SampleCPU
	SamplePeriod
	SampleStreamID
	SampleRaw
	SampleBranchStack
	SampleRegsUser
	SampleStackUser
	SampleWeight
	SampleDataSrc
	SampleIdentifier
	SampleTransaction
	SampleRegsIntr
	SamplePhysAddr
	SampleAux
	SampleCgroup       // 5.7
	SampleDataPageSize // 5.11
	SampleCodePageSize // 5.11
	SampleWeightStruct // 5.12
)
