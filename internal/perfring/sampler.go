package perfring

// Types of records (enum perf_event_type).
const (
	RecordMmap        uint32 = TypeMmap
	RecordLost        uint32 = TypeLost
	RecordComm        uint32 = TypeComm
	RecordExit        uint32 = TypeExit
	RecordThrottle    uint32 = TypeThrottle
	RecordUnthrottle  uint32 = TypeUnthrottle
	RecordFork        uint32 = TypeFork
	RecordSample      uint32 = TypeSample
	RecordMmap2       uint32 = TypeMmap2
	RecordLostSamples uint32 = TypeLostSamples
	RecordSwitch      uint32 = TypeSwitch
	RecordSwitchWide  uint32 = TypeSwitchCPUWide
	RecordKsymbol     uint32 = TypeKsymbol
	RecordBPF         uint32 = TypeBPFEvent
	RecordCgroup      uint32 = TypeCgroup
)
