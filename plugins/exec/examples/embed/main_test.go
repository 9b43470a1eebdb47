package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/porttest"
)

// TestEmbed builds the example and uses it as its users would.
func TestEmbed(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte("\n")); n >= 40 {
		t.Errorf("the example has %d lines, it promises fewer than 40", n)
	}
	plugins, err := filepath.Abs(filepath.FromSlash("../../../../bin/plugins"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"wasm/packs", "languages"} {
		if _, err := os.Stat(filepath.Join(plugins, filepath.FromSlash(p))); err != nil {
			if os.Getenv("CAISSON_CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("bin/plugins/%s is missing; run \"make build packs\"", p)
		}
	}
	program := filepath.Join(t.TempDir(), "embed")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	const key = "a key of the test"
	addr := porttest.Free(t)
	cmd := exec.Command(program)
	data := t.TempDir()
	if cache := os.Getenv("CAISSON_TEST_CACHE"); cache != "" { // of all tests
		if err := errors.Join(os.MkdirAll(cache, 0o700), os.Symlink(cache, filepath.Join(data, "cache"))); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Env = append(os.Environ(), "ADDR="+addr, "PLUGINS="+plugins, "DATA="+data,
		"CAISSON_SECRET=a deployment secret of the test", "CODE_EXEC_API_KEY="+key, "CODE_EXEC_FEE_CENTS=0")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the program's log:\n%s", &log)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if res, err := http.Get("http://" + addr + "/v1/exec/health"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the program did not become ready")
		}
	}
	post := func(key string) (int, map[string]any) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/exec", strings.NewReader(`{"lang":"py","code":"print(6*7)"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body map[string]any
		if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body
	}
	if status, body := post(key); status != http.StatusOK || body["stdout"] != "42\n" {
		t.Errorf("answered %d %v", status, body)
	}
	if status, body := post("wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong key was answered %d %v", status, body)
	}
}
