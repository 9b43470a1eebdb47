package envd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Metrics is what the daemon says of its sandbox as a machine. Sizes are in bytes.
type Metrics struct {
	At         time.Time
	CPUs       float64
	CPUPercent float64
	// MemoryUsed and so on are at that moment.
	MemoryTotal, MemoryUsed int64
	DiskTotal, DiskUsed     int64
}

// Metrics asks the daemon.
func (c *Client) Metrics(ctx context.Context, ref backend.Ref) (Metrics, error) {
	const op = "Metrics"
	ctx, cancel := c.short(ctx)
	defer cancel()
	var m struct {
		TS          int64   `json:"ts"`
		CPUs        float64 `json:"cpu_count"`
		CPU         float64 `json:"cpu_used_pct"`
		MemoryTotal int64   `json:"mem_total"`
		MemoryUsed  int64   `json:"mem_used"`
		DiskTotal   int64   `json:"disk_total"`
		DiskUsed    int64   `json:"disk_used"`
	}
	err := c.do(ctx, call{op: op, id: ref.ID, again: true}, func(ctx context.Context, b *box) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/metrics", nil)
		if err != nil {
			return err
		}
		res, err := b.http.Do(req)
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fault.Read(res)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, maxError))
		if err != nil {
			return err
		}
		if json.Unmarshal(body, &m) != nil {
			return fault.Parse(res.StatusCode, res.Header, body)
		}
		return nil
	})
	return Metrics{
		At: time.Unix(m.TS, 0).UTC(), CPUs: m.CPUs, CPUPercent: m.CPU,
		MemoryTotal: m.MemoryTotal, MemoryUsed: m.MemoryUsed, DiskTotal: m.DiskTotal, DiskUsed: m.DiskUsed,
	}, err
}
