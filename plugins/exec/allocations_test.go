package exec

import (
	"net/http/httptest"
	"testing"

	"github.com/caisson-run/caisson/host/telemetry"
)

// handlerAllocations is what one request costs that does nearly nothing: routing,
// admission by the rig, the rate, the answer, the log's line.
func handlerAllocations(r *rig) float64 {
	q := r.request("GET", alice, "/v1/languages", nil)
	return testing.AllocsPerRun(500, func() {
		w := httptest.NewRecorder()
		r.mux.ServeHTTP(w, q)
		if w.Code != 200 {
			r.t.Fatal(w.Code)
		}
	})
}

// Being measured costs a request next to no garbage.
func TestMeasuringAllocatesLittle(t *testing.T) {
	plain := handlerAllocations(newRig(t))
	measured := handlerAllocations(measuredRig(t, telemetry.New(telemetry.Options{})))
	t.Logf("a request allocates %v times, %v when it is measured", plain, measured)
	if measured > plain+3 {
		t.Errorf("measuring a request allocates %v times more, want at most 3", measured-plain)
	}
}
