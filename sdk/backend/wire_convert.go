package backend

import (
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// What goes to the plugin has to be right and is refused otherwise; what comes
// from it is read so that nothing is claimed that it did not say.

func toPBTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func fromPBTime(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func toPBDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func toPBRef(r Ref) *pb.Ref { return &pb.Ref{Config: r.Config, Id: r.ID} }

func fromPBRef(r *pb.Ref) Ref { return Ref{Config: r.GetConfig(), ID: r.GetId()} }

func toPBLimits(l Limits) *pb.Limits {
	return &pb.Limits{
		Wall:        toPBDuration(l.Wall),
		Cpu:         toPBDuration(l.CPU),
		MemoryBytes: l.MemoryBytes,
		Cpus:        l.CPUs,
		Processes:   l.Processes,
		StdoutBytes: l.StdoutBytes,
		StderrBytes: l.StderrBytes,
		DiskBytes:   l.DiskBytes,
		DiskFiles:   l.DiskFiles,
	}
}

func fromPBLimits(l *pb.Limits) Limits {
	return Limits{
		Wall:        l.GetWall().AsDuration(),
		CPU:         l.GetCpu().AsDuration(),
		MemoryBytes: l.GetMemoryBytes(),
		CPUs:        l.GetCpus(),
		Processes:   l.GetProcesses(),
		StdoutBytes: l.GetStdoutBytes(),
		StderrBytes: l.GetStderrBytes(),
		DiskBytes:   l.GetDiskBytes(),
		DiskFiles:   l.GetDiskFiles(),
	}
}

func toPBInfo(i Info) *pb.InfoResponse {
	out := &pb.InfoResponse{
		Name:        i.Name,
		Version:     i.Version,
		Languages:   toPBLanguages(i.Languages),
		StateSchema: i.StateSchema,
		MaxLimits:   toPBLimits(i.MaxLimits),
	}
	for _, c := range i.Capabilities {
		out.Capabilities = append(out.Capabilities, string(c))
	}
	return out
}

func fromPBInfo(p *pb.InfoResponse) Info {
	out := Info{
		Name:        p.GetName(),
		Version:     p.GetVersion(),
		Languages:   fromPBLanguages(p.GetLanguages()),
		StateSchema: p.GetStateSchema(),
		MaxLimits:   fromPBLimits(p.GetMaxLimits()),
	}
	for _, c := range p.GetCapabilities() {
		out.Capabilities = append(out.Capabilities, Capability(c))
	}
	return out
}

func toPBLanguages(ls []LanguageSupport) []*pb.LanguageSupport {
	return mapSlice(ls, func(l LanguageSupport) *pb.LanguageSupport {
		return &pb.LanguageSupport{Id: l.ID, Toolchain: l.Toolchain, Version: text(l.Version), Missing: text(l.Missing)}
	})
}

func fromPBLanguages(ls []*pb.LanguageSupport) []LanguageSupport {
	return mapSlice(ls, func(l *pb.LanguageSupport) LanguageSupport {
		return LanguageSupport{ID: l.GetId(), Toolchain: l.GetToolchain(), Version: l.GetVersion(), Missing: l.GetMissing()}
	})
}

func toPBMetadata(m Metadata) *pb.Metadata {
	return &pb.Metadata{
		Deployment: m.Deployment,
		Config:     m.Config,
		Session:    m.Session,
		Tenant:     m.Tenant,
		User:       m.User,
		Origin:     m.Origin,
		Labels:     m.Labels,
	}
}

func fromPBMetadata(m *pb.Metadata) Metadata {
	return Metadata{
		Deployment: m.GetDeployment(),
		Config:     m.GetConfig(),
		Session:    m.GetSession(),
		Tenant:     m.GetTenant(),
		User:       m.GetUser(),
		Origin:     m.GetOrigin(),
		Labels:     m.GetLabels(),
	}
}

func toPBSandbox(s Sandbox) *pb.Sandbox {
	return &pb.Sandbox{
		Ref:        toPBRef(s.Ref),
		State:      stateEnum.numberOr(s.State, pb.State_STATE_UNKNOWN),
		RawState:   text(s.RawState),
		Metadata:   toPBMetadata(s.Metadata),
		Created:    toPBTime(s.Created),
		LastActive: toPBTime(s.LastActive),
		Expires:    toPBTime(s.Expires),
		Token:      s.Token, StateSchema: text(s.StateSchema),
	}
}

func fromPBSandbox(s *pb.Sandbox) Sandbox {
	return Sandbox{
		Ref:        fromPBRef(s.GetRef()),
		State:      stateEnum.word(s.GetState(), StateUnknown),
		RawState:   s.GetRawState(),
		Metadata:   fromPBMetadata(s.GetMetadata()),
		Created:    fromPBTime(s.GetCreated()),
		LastActive: fromPBTime(s.GetLastActive()),
		Expires:    fromPBTime(s.GetExpires()),
		Token:      s.GetToken(), StateSchema: s.GetStateSchema(),
	}
}

func toPBCreate(c CreateSpec) (*pb.CreateRequest, error) {
	const op = "Create"
	network, ok := networkEnum.number(c.Network.Mode)
	if !ok {
		return nil, Errorf(KindInvalidRequest, op, "network mode %q is none of the three", c.Network.Mode)
	}
	mode, ok := timeoutModeEnum.number(c.Timeout.Mode)
	if !ok {
		return nil, Errorf(KindInvalidRequest, op, "timeout mode %q is none of the three", c.Timeout.Mode)
	}
	action, ok := timeoutActionEnum.number(c.Timeout.Action)
	if !ok {
		return nil, Errorf(KindInvalidRequest, op, "timeout action %q is neither kill nor pause", c.Timeout.Action)
	}
	return &pb.CreateRequest{
		Config:     c.Config,
		Session:    c.Session,
		Metadata:   toPBMetadata(c.Metadata),
		Template:   c.Template,
		Snapshot:   c.Snapshot,
		Entrypoint: toBytes(c.Entrypoint),
		Env:        toBytesMap(c.Env),
		Network: &pb.Network{
			Mode: network, Allow: c.Network.Allow, Deny: c.Network.Deny,
			Rules: c.Network.Rules, PublicPorts: c.Network.PublicPorts,
		},
		Volumes: mapSlice(c.Volumes, func(v VolumeMount) *pb.VolumeMount {
			return &pb.VolumeMount{Name: v.Name, Path: []byte(v.Path), ReadOnly: v.ReadOnly}
		}),
		Timeout: &pb.TimeoutPolicy{
			Mode: mode, Duration: toPBDuration(c.Timeout.Duration),
			Action: action, AutoResume: c.Timeout.AutoResume,
		},
		Limits: toPBLimits(c.Limits),
	}, nil
}

// fromPBCreate refuses what it does not know: reading an unknown network mode
// as the default could open what was meant to be closed.
func fromPBCreate(p *pb.CreateRequest) (CreateSpec, error) {
	const op = "Create"
	const unknown = "unknown"
	spec := CreateSpec{
		Config:     p.GetConfig(),
		Session:    p.GetSession(),
		Metadata:   fromPBMetadata(p.GetMetadata()),
		Template:   p.GetTemplate(),
		Snapshot:   p.GetSnapshot(),
		Entrypoint: fromBytes(p.GetEntrypoint()),
		Env:        fromBytesMap(p.GetEnv()),
		Network: Network{
			Mode:  networkEnum.word(p.GetNetwork().GetMode(), unknown),
			Allow: p.GetNetwork().GetAllow(), Deny: p.GetNetwork().GetDeny(),
			Rules: p.GetNetwork().GetRules(), PublicPorts: p.GetNetwork().GetPublicPorts(),
		},
		Volumes: mapSlice(p.GetVolumes(), func(v *pb.VolumeMount) VolumeMount {
			return VolumeMount{Name: v.GetName(), Path: string(v.GetPath()), ReadOnly: v.GetReadOnly()}
		}),
		Timeout: TimeoutPolicy{
			Mode:       timeoutModeEnum.word(p.GetTimeout().GetMode(), unknown),
			Duration:   p.GetTimeout().GetDuration().AsDuration(),
			Action:     timeoutActionEnum.word(p.GetTimeout().GetAction(), unknown),
			AutoResume: p.GetTimeout().GetAutoResume(),
		},
		Limits: fromPBLimits(p.GetLimits()),
	}
	switch {
	case spec.Network.Mode == unknown:
		return spec, Errorf(KindInvalidRequest, op, "network mode %d is not known to this plugin", p.GetNetwork().GetMode())
	case spec.Timeout.Mode == unknown:
		return spec, Errorf(KindInvalidRequest, op, "timeout mode %d is not known to this plugin", p.GetTimeout().GetMode())
	case spec.Timeout.Action == unknown:
		return spec, Errorf(KindInvalidRequest, op, "timeout action %d is not known to this plugin", p.GetTimeout().GetAction())
	}
	return spec, nil
}

func toPBEntry(e Entry) *pb.Entry {
	return &pb.Entry{
		Path:     []byte(e.Path),
		Type:     entryTypeEnum.numberOr(e.Type, pb.EntryType_ENTRY_TYPE_OTHER),
		Size:     e.Size,
		Modified: toPBTime(e.Modified),
		Mode:     e.Mode,
		Sha256:   e.SHA256,
	}
}

func fromPBEntry(e *pb.Entry) Entry {
	return Entry{
		Path:     string(e.GetPath()),
		Type:     entryTypeEnum.word(e.GetType(), EntryOther),
		Size:     e.GetSize(),
		Modified: fromPBTime(e.GetModified()),
		Mode:     e.GetMode(),
		SHA256:   e.GetSha256(),
	}
}

func mapSlice[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func toBytes(in []string) [][]byte {
	return mapSlice(in, func(s string) []byte { return []byte(s) })
}

func fromBytes(in [][]byte) []string {
	return mapSlice(in, func(b []byte) string { return string(b) })
}

func toBytesMap(in map[string]string) map[string][]byte {
	if in == nil {
		return nil
	}
	out := make(map[string][]byte, len(in))
	for k, v := range in {
		out[k] = []byte(v)
	}
	return out
}

func fromBytesMap(in map[string][]byte) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = string(v)
	}
	return out
}

// chunks yields p in pieces of at most chunkBytes; nothing when p is empty.
func chunks(p []byte) iter.Seq[[]byte] { return slices.Chunk(p, chunkBytes) }
