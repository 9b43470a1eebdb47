package backend

import (
	"context"
	"errors"
	"io"
	"time"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

func fromPBSnapshot(p *pb.SnapshotInfo) Snapshot {
	return Snapshot{ID: p.GetId(), Name: p.GetName(), Labels: p.GetLabels(), Created: fromPBTime(p.GetCreated()), Bytes: p.GetBytes()}
}

// fromPBTemplate reads an unknown status as building, on which nobody acts.
func fromPBTemplate(p *pb.Template) Template {
	return Template{
		ID: p.GetId(), Name: p.GetName(), Error: errorText(p.GetError()),
		Status: templateEnum.word(p.GetStatus(), TemplateBuilding),
	}
}

func fromPBVolume(p *pb.Volume) Volume {
	return Volume{Name: p.GetName(), Created: fromPBTime(p.GetCreated())}
}

func (c *client) KeepAlive(ctx context.Context, ref Ref, ttl time.Duration) (time.Time, error) {
	resp, err := unary(ctx, "KeepAlive", deadlineCall, &pb.KeepAliveRequest{Ref: toPBRef(ref), Ttl: toPBDuration(ttl)}, c.pb.KeepAlive)
	if err != nil {
		return time.Time{}, err
	}
	return fromPBTime(resp.GetExpires()), nil
}

func (c *client) Pause(ctx context.Context, ref Ref) error {
	_, err := unary(ctx, "Pause", deadlineLong, &pb.PauseRequest{Ref: toPBRef(ref)}, c.pb.Pause)
	return err
}

func (c *client) Snapshot(ctx context.Context, ref Ref, name string, labels map[string]string) (Snapshot, error) {
	resp, err := unary(ctx, "Snapshot", deadlineLong, &pb.SnapshotRequest{Ref: toPBRef(ref), Name: name, Labels: labels}, c.pb.Snapshot)
	if err != nil {
		return Snapshot{}, err
	}
	return fromPBSnapshot(resp.GetSnapshot()), nil
}

func (c *client) ListSnapshots(ctx context.Context, config string, labels map[string]string) ([]Snapshot, error) {
	return listing(ctx, "ListSnapshots", deadlineList, &pb.ListSnapshotsRequest{Config: config, Labels: labels},
		c.pb.ListSnapshots, (*pb.ListSnapshotsResponse).GetSnapshots, fromPBSnapshot)
}

func (c *client) DeleteSnapshot(ctx context.Context, config, id string) error {
	_, err := unary(ctx, "DeleteSnapshot", deadlineCall, &pb.DeleteSnapshotRequest{Config: config, Id: id}, c.pb.DeleteSnapshot)
	return err
}

func (c *client) EnsureTemplate(ctx context.Context, config string) (Template, error) {
	resp, err := unary(ctx, "EnsureTemplate", deadlineLong, &pb.EnsureTemplateRequest{Config: config}, c.pb.EnsureTemplate)
	if err != nil {
		return Template{}, err
	}
	return fromPBTemplate(resp.GetTemplate()), nil
}

func (c *client) ReplaceTemplate(ctx context.Context, config string) (Template, error) {
	resp, err := unary(ctx, "ReplaceTemplate", deadlineLong, &pb.ReplaceTemplateRequest{Config: config}, c.pb.ReplaceTemplate)
	if err != nil {
		return Template{}, err
	}
	return fromPBTemplate(resp.GetTemplate()), nil
}

func (c *client) ListTemplates(ctx context.Context, config string) ([]Template, error) {
	return listing(ctx, "ListTemplates", deadlineList, &pb.ListTemplatesRequest{Config: config},
		c.pb.ListTemplates, (*pb.ListTemplatesResponse).GetTemplates, fromPBTemplate)
}

func (c *client) DeleteSuperseded(ctx context.Context, config string, keep []string) error {
	_, err := unary(ctx, "DeleteSuperseded", deadlineLong, &pb.DeleteSupersededRequest{Config: config, Keep: keep}, c.pb.DeleteSuperseded)
	return err
}

func (c *client) EnsureVolume(ctx context.Context, config, name string) (Volume, error) {
	resp, err := unary(ctx, "EnsureVolume", deadlineLong, &pb.EnsureVolumeRequest{Config: config, Name: name}, c.pb.EnsureVolume)
	if err != nil {
		return Volume{}, err
	}
	return fromPBVolume(resp.GetVolume()), nil
}

func (c *client) ListVolumes(ctx context.Context, config string) ([]Volume, error) {
	return listing(ctx, "ListVolumes", deadlineList, &pb.ListVolumesRequest{Config: config},
		c.pb.ListVolumes, (*pb.ListVolumesResponse).GetVolumes, fromPBVolume)
}

func (c *client) DeleteVolume(ctx context.Context, config, name string) error {
	_, err := unary(ctx, "DeleteVolume", deadlineLong, &pb.DeleteVolumeRequest{Config: config, Name: name}, c.pb.DeleteVolume)
	return err
}

func (c *client) KillRun(ctx context.Context, ref Ref, runID string) error {
	_, err := unary(ctx, "KillRun", deadlineCall, &pb.KillRunRequest{Ref: toPBRef(ref), RunId: runID}, c.pb.KillRun)
	return err
}

func (c *client) Watch(ctx context.Context, ref Ref, root string, recursive bool, fn func(WatchEvent) error) error {
	const op = "Watch"
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.pb.Watch(streamCtx, &pb.WatchRequest{Ref: toPBRef(ref), Root: []byte(root), Recursive: recursive})
	if err != nil {
		return fromStatus(ctx, op, err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fromStatus(ctx, op, err)
		}
		for _, e := range resp.GetEvents() {
			event := WatchEvent{Path: string(e.GetPath()), Op: e.GetOp()}
			if CheckPath(event.Path) != nil || !Within(root, event.Path) {
				return violation(op, "an event for %q, which is not below %s", event.Path, root)
			}
			if err := fn(event); err != nil {
				return err
			}
		}
	}
}
