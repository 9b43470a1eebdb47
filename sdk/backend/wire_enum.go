package backend

import (
	"maps"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// enum translates between the words of the Go contract and the numbers of the
// wire. What it does not know it reports, and the caller decides.
type enum[S ~string, N ~int32] struct {
	words   map[N]S
	numbers map[S]N
}

func newEnum[S ~string, N ~int32](words map[N]S) enum[S, N] {
	e := enum[S, N]{words: words, numbers: make(map[S]N, len(words))}
	for n, s := range maps.All(words) {
		e.numbers[s] = n
	}
	return e
}

func (e enum[S, N]) word(n N, unknown S) S {
	if s, ok := e.words[n]; ok {
		return s
	}
	return unknown
}

func (e enum[S, N]) number(s S) (N, bool) {
	n, ok := e.numbers[s]
	return n, ok
}

// numberOr is for answers, where an unknown word must not fail the call.
func (e enum[S, N]) numberOr(s S, unknown N) N {
	if n, ok := e.numbers[s]; ok {
		return n
	}
	return unknown
}

var (
	kindEnum = newEnum(map[pb.Kind]Kind{
		pb.Kind_KIND_NOT_FOUND:       KindNotFound,
		pb.Kind_KIND_TERMINAL:        KindTerminal,
		pb.Kind_KIND_AUTHENTICATION:  KindAuthentication,
		pb.Kind_KIND_INVALID_REQUEST: KindInvalidRequest,
		pb.Kind_KIND_UNSUPPORTED:     KindUnsupported,
		pb.Kind_KIND_CONFLICT:        KindConflict,
		pb.Kind_KIND_CAPACITY:        KindCapacity,
		pb.Kind_KIND_TIMEOUT:         KindTimeout,
		pb.Kind_KIND_UNAVAILABLE:     KindUnavailable,
		pb.Kind_KIND_INTERNAL:        KindInternal,
	})
	subjectEnum = newEnum(map[pb.Subject]Subject{
		pb.Subject_SUBJECT_UNSPECIFIED: "",
		pb.Subject_SUBJECT_SANDBOX:     SubjectSandbox,
		pb.Subject_SUBJECT_FILE:        SubjectFile,
		pb.Subject_SUBJECT_CONFIG:      SubjectConfig,
		pb.Subject_SUBJECT_TEMPLATE:    SubjectTemplate,
		pb.Subject_SUBJECT_SNAPSHOT:    SubjectSnapshot,
		pb.Subject_SUBJECT_VOLUME:      SubjectVolume,
		pb.Subject_SUBJECT_RUN:         SubjectRun,
		pb.Subject_SUBJECT_TERMINAL:    SubjectTerminal,
	})
	planeEnum = newEnum(map[pb.Plane]Plane{
		pb.Plane_PLANE_UNSPECIFIED: "",
		pb.Plane_PLANE_CONTROL:     PlaneControl,
		pb.Plane_PLANE_DATA:        PlaneData,
	})
	stateEnum = newEnum(map[pb.State]State{
		pb.State_STATE_RUNNING:       StateRunning,
		pb.State_STATE_PAUSED:        StatePaused,
		pb.State_STATE_TRANSITIONING: StateTransitioning,
		pb.State_STATE_TERMINATED:    StateTerminated,
		pb.State_STATE_UNKNOWN:       StateUnknown,
	})
	networkEnum = newEnum(map[pb.NetworkMode]NetworkMode{
		pb.NetworkMode_NETWORK_MODE_UNSPECIFIED: NetworkDefault,
		pb.NetworkMode_NETWORK_MODE_CLOSED:      NetworkClosed,
		pb.NetworkMode_NETWORK_MODE_OPEN:        NetworkOpen,
	})
	timeoutModeEnum = newEnum(map[pb.TimeoutMode]TimeoutMode{
		pb.TimeoutMode_TIMEOUT_MODE_UNSPECIFIED: TimeoutDefault,
		pb.TimeoutMode_TIMEOUT_MODE_AFTER:       TimeoutAfter,
		pb.TimeoutMode_TIMEOUT_MODE_NEVER:       TimeoutNever,
	})
	timeoutActionEnum = newEnum(map[pb.TimeoutAction]TimeoutAction{
		pb.TimeoutAction_TIMEOUT_ACTION_UNSPECIFIED: "",
		pb.TimeoutAction_TIMEOUT_ACTION_KILL:        TimeoutKill,
		pb.TimeoutAction_TIMEOUT_ACTION_PAUSE:       TimeoutPause,
	})
	entryTypeEnum = newEnum(map[pb.EntryType]EntryType{
		pb.EntryType_ENTRY_TYPE_FILE:  EntryFile,
		pb.EntryType_ENTRY_TYPE_DIR:   EntryDir,
		pb.EntryType_ENTRY_TYPE_OTHER: EntryOther,
	})
	stopEnum = newEnum(map[pb.StopReason]StopReason{
		pb.StopReason_STOP_REASON_EXIT:     StopExit,
		pb.StopReason_STOP_REASON_TIMEOUT:  StopTimeout,
		pb.StopReason_STOP_REASON_CPU:      StopCPU,
		pb.StopReason_STOP_REASON_MEMORY:   StopMemory,
		pb.StopReason_STOP_REASON_OUTPUT:   StopOutput,
		pb.StopReason_STOP_REASON_CANCELED: StopCanceled,
		pb.StopReason_STOP_REASON_LOST:     StopLost,
		pb.StopReason_STOP_REASON_DISK:     StopDisk,
	})
	templateEnum = newEnum(map[pb.TemplateStatus]TemplateStatus{
		pb.TemplateStatus_TEMPLATE_STATUS_READY:    TemplateReady,
		pb.TemplateStatus_TEMPLATE_STATUS_BUILDING: TemplateBuilding,
		pb.TemplateStatus_TEMPLATE_STATUS_FAILED:   TemplateFailed,
		pb.TemplateStatus_TEMPLATE_STATUS_UNTAGGED: TemplateUntagged,
		pb.TemplateStatus_TEMPLATE_STATUS_ABSENT:   TemplateAbsent,
	})
)
