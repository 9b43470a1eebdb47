package host

import (
	"github.com/caisson-run/caisson/host/telemetry"
)

// Telemetry is the platform's; it may be nil, which measures nothing.
func (h *Host) Telemetry() *telemetry.Telemetry { return h.o.Platform.Telemetry }
