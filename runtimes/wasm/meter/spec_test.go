package meter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// specCommand is one step of a specification test, in the form that wast2json
// gives it.
type specCommand struct {
	Type       string
	Line       int
	Name       string
	Filename   string
	As         string
	ModuleType string `json:"module_type"`
	Action     struct {
		Type, Module, Field string
		Args                []specValue
	}
}

type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

// bits returns the value as wazero passes it.
func (v specValue) bits(t *testing.T) []uint64 {
	if v.Type != "v128" {
		return []uint64{v.scalar(t, v.Type, fmt.Sprint(v.Value))}
	}
	lanes := v.Value.([]any)
	out := make([]uint64, 2)
	width := 128 / len(lanes)
	for i, l := range lanes {
		n := v.scalar(t, v.LaneType, fmt.Sprint(l))
		if width < 64 {
			n &= 1<<width - 1
		}
		out[i*width/64] |= n << (i * width % 64)
	}
	return out
}

func (v specValue) scalar(t *testing.T, typ, text string) uint64 {
	if text == "null" || text == "<nil>" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("argument %q of type %s: %v", text, typ, err)
		}
		n = uint64(s)
	}
	switch typ {
	case "externref":
		n++ // wazero takes 0 for null
	case "i32", "f32":
		n = uint64(uint32(n))
	}
	return n
}

// findWazero finds the source of wazero, whose specification tests are part of it.
func findWazero() string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

const specFeatures = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall |
	experimental.CoreFeaturesExtendedConst | experimental.CoreFeaturesExceptionHandling

// TestSpec runs the specification tests twice side by side, with the modules as
// they are and rewritten, and compares all that can be seen: results, traps, and
// whether a module is valid, can be linked and instantiated.
func TestSpec(t *testing.T) {
	dir := findWazero()
	if dir == "" {
		t.Skip("the source of wazero is not at hand")
	}
	root := filepath.Join(dir, "internal/integration_test/spectest")
	for _, suite := range []struct {
		name     string
		features api.CoreFeatures
		// refusals says that modules may be refused for what they use.
		refusals bool
	}{
		{"v1", specFeatures, false},
		{"v2", specFeatures, false},
		{"tail-call", specFeatures, false},
		{"extended-const", specFeatures, false},
		{"exception-handling", specFeatures | experimental.CoreFeaturesTypedFunctionReferences, true},
		{"threads", specFeatures | experimental.CoreFeaturesThreads, true},
		{"typed-function-references", specFeatures | experimental.CoreFeaturesTypedFunctionReferences, true},
	} {
		files, err := filepath.Glob(filepath.Join(root, suite.name, "testdata", "*.json"))
		if err != nil || len(files) == 0 {
			t.Skipf("no specification tests in this copy of wazero: %v", err)
		}
		t.Run(suite.name, func(t *testing.T) {
			for i, f := range files {
				if brief() && i%8 != 0 {
					continue
				}
				t.Run(strings.TrimSuffix(filepath.Base(f), ".json"), func(t *testing.T) {
					t.Parallel()
					s := &specRun{refusals: suite.refusals, dir: filepath.Dir(f), root: root}
					s.run(t, f, suite.features)
				})
			}
		})
	}
}

// specOptions allow for a test of a large br_table.
var specOptions = Options{Fuel: &Fuel{Seed: 1}, Limits: Limits{BranchTargets: 65_520}}

// specRun is one file of tests.
type specRun struct {
	dir, root string
	refusals  bool

	plain, metered         wazero.Runtime
	modules                map[string]pair
	refused, ran, rejected int
}

// pair is a module as it was and rewritten. metered is nil if it was refused.
type pair struct{ plain, metered api.Module }

func (s *specRun) run(t *testing.T, file string, features api.CoreFeatures) {
	ctx := context.Background()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var script struct{ Commands []specCommand }
	if err := json.Unmarshal(text, &script); err != nil {
		t.Fatal(err)
	}
	config := wazero.NewRuntimeConfig().WithCoreFeatures(features)
	s.plain, s.metered = wazero.NewRuntimeWithConfig(ctx, config), wazero.NewRuntimeWithConfig(ctx, config)
	defer s.plain.Close(ctx)
	defer s.metered.Close(ctx)
	host := s.read(t, filepath.Join(s.root, "testdata", "spectest.wasm"))
	for _, r := range []wazero.Runtime{s.plain, s.metered} {
		if _, err := r.InstantiateWithConfig(ctx, host, wazero.NewModuleConfig().WithName("spectest")); err != nil {
			t.Fatal(err)
		}
	}
	// Slices of a few instructions: the host is called all the time.
	refillFrom(t, s.metered, 7)

	s.modules = map[string]pair{}
	for i, c := range script.Commands {
		as := ""
		if i+1 < len(script.Commands) && script.Commands[i+1].Type == "register" {
			as = script.Commands[i+1].As
		}
		s.command(t, ctx, c, as)
	}
	t.Logf("%d calls compared, %d invalid modules stayed so, %d modules refused", s.ran, s.rejected, s.refused)
}

func (s *specRun) read(t *testing.T, file string) []byte {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *specRun) command(t *testing.T, ctx context.Context, c specCommand, as string) {
	where := fmt.Sprintf("line %d: %s", c.Line, c.Type)
	switch c.Type {
	case "module":
		p := s.instantiate(t, ctx, where, c.Filename, as)
		s.modules[""] = p
		if c.Name != "" {
			s.modules[c.Name] = p
		}
	case "register":
		// done with the module
	case "assert_return", "action", "assert_trap", "assert_exhaustion", "assert_exception":
		p := s.modules[c.Action.Module]
		if p.metered == nil {
			return
		}
		s.ran++
		want, wantErr := act(t, ctx, p.plain, c)
		got, gotErr := act(t, ctx, p.metered, c)
		if !slices.Equal(want, got) || trap(wantErr) != trap(gotErr) {
			t.Errorf("%s of %q: %v %v, rewritten %v %v", where, c.Action.Field, want, trap(wantErr), got, trap(gotErr))
		}
	case "assert_invalid", "assert_malformed", "assert_unlinkable", "assert_uninstantiable":
		if c.ModuleType == "text" || strings.HasSuffix(c.Filename, ".wat") {
			return
		}
		binary := s.read(t, filepath.Join(s.dir, c.Filename))
		_, wantErr := s.plain.InstantiateWithConfig(ctx, binary, wazero.NewModuleConfig().WithName(""))
		res, err := Rewrite(binary, specOptions)
		if err == nil {
			_, err = s.metered.InstantiateWithConfig(ctx, res.Module, wazero.NewModuleConfig().WithName(""))
		}
		switch {
		case wantErr == nil && s.refusals && errors.Is(err, ErrUnsupported):
		case (err == nil) != (wantErr == nil),
			c.Type == "assert_uninstantiable" && trap(err) != trap(wantErr):
			t.Errorf("%s: %s: %v; rewritten: %v", where, c.Filename, wantErr, err)
		}
		s.rejected++
	default:
		t.Fatalf("%s: unknown command", where)
	}
}

func (s *specRun) instantiate(t *testing.T, ctx context.Context, where, file, as string) (p pair) {
	binary := s.read(t, filepath.Join(s.dir, file))
	config := wazero.NewModuleConfig().WithName(as)
	var err error
	if p.plain, err = s.plain.InstantiateWithConfig(ctx, binary, config); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	res, err := Rewrite(binary, specOptions)
	if err != nil {
		if !s.refusals || !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %s: %v", where, file, err)
		}
		s.refused++
		// Others may import from it.
		if _, err := s.metered.InstantiateWithConfig(ctx, binary, config); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		return p
	}
	if p.metered, err = s.metered.InstantiateWithConfig(ctx, res.Module, config); err != nil {
		t.Fatalf("%s: %s: rewritten: %v", where, file, err)
	}
	return p
}

// act does what a command says.
func act(t *testing.T, ctx context.Context, m api.Module, c specCommand) ([]uint64, error) {
	if c.Action.Type == "get" {
		return []uint64{m.ExportedGlobal(c.Action.Field).Get()}, nil
	}
	var args []uint64
	for _, a := range c.Action.Args {
		args = append(args, a.bits(t)...)
	}
	f := m.ExportedFunction(c.Action.Field)
	out, err := f.Call(ctx, args...)
	for i, typ := range f.Definition().ResultTypes() {
		// References are addresses: of two modules they differ.
		if i < len(out) && typ == 0x70 && out[i] != 0 {
			out[i] = 1
		}
	}
	return out, err
}

// trap is an error without the stack trace.
func trap(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if _, cause, ok := strings.Cut(line, "wasm error: "); ok {
		return cause
	}
	return line
}
