package backend

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

func toPBSnapshot(s Snapshot) *pb.SnapshotInfo {
	return &pb.SnapshotInfo{Id: s.ID, Name: text(s.Name), Labels: s.Labels, Created: toPBTime(s.Created), Bytes: s.Bytes}
}

func toPBTemplate(t Template) *pb.Template {
	return &pb.Template{
		Id: t.ID, Name: text(t.Name), Error: errorText(t.Error),
		Status: templateEnum.numberOr(t.Status, pb.TemplateStatus_TEMPLATE_STATUS_UNSPECIFIED),
	}
}

func toPBVolume(v Volume) *pb.Volume { return &pb.Volume{Name: v.Name, Created: toPBTime(v.Created)} }

func (s *server) KeepAlive(ctx context.Context, r *pb.KeepAliveRequest) (*pb.KeepAliveResponse, error) {
	k, ok := Optional[KeepAliver](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "KeepAlive")
	}
	t, err := k.KeepAlive(ctx, fromPBRef(r.GetRef()), r.GetTtl().AsDuration())
	return &pb.KeepAliveResponse{Expires: toPBTime(t)}, toStatus(ctx, "KeepAlive", err)
}

func (s *server) Pause(ctx context.Context, r *pb.PauseRequest) (*pb.PauseResponse, error) {
	p, ok := Optional[Pauser](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "Pause")
	}
	return &pb.PauseResponse{}, toStatus(ctx, "Pause", p.Pause(ctx, fromPBRef(r.GetRef())))
}

func (s *server) Snapshot(ctx context.Context, r *pb.SnapshotRequest) (*pb.SnapshotResponse, error) {
	sn, ok := Optional[Snapshotter](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "Snapshot")
	}
	snap, err := sn.Snapshot(ctx, fromPBRef(r.GetRef()), r.GetName(), r.GetLabels())
	return &pb.SnapshotResponse{Snapshot: toPBSnapshot(snap)}, toStatus(ctx, "Snapshot", err)
}

func (s *server) ListSnapshots(r *pb.ListSnapshotsRequest, stream grpc.ServerStreamingServer[pb.ListSnapshotsResponse]) error {
	ctx := stream.Context()
	sn, ok := Optional[Snapshotter](s.b, s.info)
	if !ok {
		return unsupported(ctx, "ListSnapshots")
	}
	found, err := sn.ListSnapshots(ctx, r.GetConfig(), r.GetLabels())
	if err != nil {
		return toStatus(ctx, "ListSnapshots", err)
	}
	size := func(s Snapshot) int {
		n := entryOverhead + len(s.ID) + len(s.Name)
		for k, v := range s.Labels {
			n += len(k) + len(v) + 8
		}
		return n
	}
	return sendBatches(found, toPBSnapshot, size, func(batch []*pb.SnapshotInfo) error {
		return stream.Send(&pb.ListSnapshotsResponse{Snapshots: batch})
	})
}

func (s *server) DeleteSnapshot(ctx context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	sn, ok := Optional[Snapshotter](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "DeleteSnapshot")
	}
	return &pb.DeleteSnapshotResponse{}, toStatus(ctx, "DeleteSnapshot", sn.DeleteSnapshot(ctx, r.GetConfig(), r.GetId()))
}

func (s *server) EnsureTemplate(ctx context.Context, r *pb.EnsureTemplateRequest) (*pb.EnsureTemplateResponse, error) {
	c, ok := Optional[TemplateCatalog](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "EnsureTemplate")
	}
	t, err := c.EnsureTemplate(ctx, r.GetConfig())
	return &pb.EnsureTemplateResponse{Template: toPBTemplate(t)}, toStatus(ctx, "EnsureTemplate", err)
}

func (s *server) ReplaceTemplate(ctx context.Context, r *pb.ReplaceTemplateRequest) (*pb.ReplaceTemplateResponse, error) {
	c, ok := Optional[TemplateCatalog](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "ReplaceTemplate")
	}
	t, err := c.ReplaceTemplate(ctx, r.GetConfig())
	return &pb.ReplaceTemplateResponse{Template: toPBTemplate(t)}, toStatus(ctx, "ReplaceTemplate", err)
}

func (s *server) ListTemplates(r *pb.ListTemplatesRequest, stream grpc.ServerStreamingServer[pb.ListTemplatesResponse]) error {
	ctx := stream.Context()
	c, ok := Optional[TemplateCatalog](s.b, s.info)
	if !ok {
		return unsupported(ctx, "ListTemplates")
	}
	found, err := c.ListTemplates(ctx, r.GetConfig())
	if err != nil {
		return toStatus(ctx, "ListTemplates", err)
	}
	size := func(t Template) int { return entryOverhead + len(t.ID) + len(t.Name) + len(t.Error) }
	return sendBatches(found, toPBTemplate, size, func(batch []*pb.Template) error {
		return stream.Send(&pb.ListTemplatesResponse{Templates: batch})
	})
}

func (s *server) DeleteSuperseded(ctx context.Context, r *pb.DeleteSupersededRequest) (*pb.DeleteSupersededResponse, error) {
	c, ok := Optional[TemplateCatalog](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "DeleteSuperseded")
	}
	return &pb.DeleteSupersededResponse{}, toStatus(ctx, "DeleteSuperseded", c.DeleteSuperseded(ctx, r.GetConfig(), r.GetKeep()))
}

func (s *server) EnsureVolume(ctx context.Context, r *pb.EnsureVolumeRequest) (*pb.EnsureVolumeResponse, error) {
	m, ok := Optional[VolumeManager](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "EnsureVolume")
	}
	v, err := m.EnsureVolume(ctx, r.GetConfig(), r.GetName())
	return &pb.EnsureVolumeResponse{Volume: toPBVolume(v)}, toStatus(ctx, "EnsureVolume", err)
}

func (s *server) ListVolumes(r *pb.ListVolumesRequest, stream grpc.ServerStreamingServer[pb.ListVolumesResponse]) error {
	ctx := stream.Context()
	m, ok := Optional[VolumeManager](s.b, s.info)
	if !ok {
		return unsupported(ctx, "ListVolumes")
	}
	found, err := m.ListVolumes(ctx, r.GetConfig())
	if err != nil {
		return toStatus(ctx, "ListVolumes", err)
	}
	size := func(v Volume) int { return entryOverhead + len(v.Name) }
	return sendBatches(found, toPBVolume, size, func(batch []*pb.Volume) error {
		return stream.Send(&pb.ListVolumesResponse{Volumes: batch})
	})
}

func (s *server) DeleteVolume(ctx context.Context, r *pb.DeleteVolumeRequest) (*pb.DeleteVolumeResponse, error) {
	m, ok := Optional[VolumeManager](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "DeleteVolume")
	}
	return &pb.DeleteVolumeResponse{}, toStatus(ctx, "DeleteVolume", m.DeleteVolume(ctx, r.GetConfig(), r.GetName()))
}

func (s *server) KillRun(ctx context.Context, r *pb.KillRunRequest) (*pb.KillRunResponse, error) {
	d, ok := Optional[DetachedRunner](s.b, s.info)
	if !ok {
		return nil, unsupported(ctx, "KillRun")
	}
	return &pb.KillRunResponse{}, toStatus(ctx, "KillRun", d.KillRun(ctx, fromPBRef(r.GetRef()), r.GetRunId()))
}

func (s *server) Watch(r *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	ctx := stream.Context()
	w, ok := Optional[Watcher](s.b, s.info)
	if !ok {
		return unsupported(ctx, "Watch")
	}
	err := w.Watch(ctx, fromPBRef(r.GetRef()), string(r.GetRoot()), r.GetRecursive(), func(e WatchEvent) error {
		return stream.Send(&pb.WatchResponse{Events: []*pb.WatchEvent{{Path: []byte(e.Path), Op: e.Op}}})
	})
	return toStatus(ctx, "Watch", err)
}
