package mcp

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caisson-run/caisson/sdk/client"
)

// Input that ends while a program runs stops the program, and is nobody's fault.
func TestInputEndsDuringRun(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush() // the reply has begun, as after a keep-alive
		close(began)
		<-r.Context().Done()
		close(ended)
	}))
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, Key: "key", HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	in, send := io.Pipe()
	receive, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Stdio(context.Background(), c, "1", in, out, func(tool string, err error) {
			t.Errorf("%s: %v", tool, err)
		})
		_ = out.Close()
	}()
	lines := bufio.NewScanner(receive)
	say := func(text string) {
		if _, err := io.WriteString(send, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if !lines.Scan() {
		t.Fatal("no answer")
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code","arguments":{"language":"py","code":"while True: pass"}}}`)
	go func() {
		for lines.Scan() { // what is still answered must not wait for a reader
		}
	}()
	<-began
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := <-done; err != nil {
		t.Error(err)
	}
}
