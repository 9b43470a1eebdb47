package envdfake

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// strictJSON is the JSON codec. It takes unknown fields, as the daemon does, and
// records them.
type strictJSON struct{ m *Machine }

func (strictJSON) Name() string { return "json" }

func (strictJSON) Marshal(v any) ([]byte, error) {
	msg, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return protojson.Marshal(msg)
}

func (c strictJSON) Unmarshal(data []byte, v any) error {
	msg, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	if len(data) == 0 {
		return fmt.Errorf("zero-length payload is not a valid JSON object")
	}
	err := protojson.Unmarshal(data, msg)
	if err == nil {
		return nil
	}
	if tolerant := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, msg); tolerant != nil {
		return tolerant
	}
	c.m.violation("%s: %v", msg.ProtoReflect().Descriptor().FullName(), err)
	return nil
}

// unknownFields records fields of binary messages that are none.
type unknownFields struct{ m *Machine }

func (u unknownFields) check(v any) {
	if msg, ok := v.(proto.Message); ok {
		u.message(msg.ProtoReflect())
	}
}

func (u unknownFields) message(msg protoreflect.Message) {
	if len(msg.GetUnknown()) > 0 {
		u.m.violation("%s has a field that is none", msg.Descriptor().FullName())
	}
	msg.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.MessageKind && !f.IsMap() && !f.IsList() {
			u.message(v.Message())
		}
		return true
	})
}

func (u unknownFields) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		u.check(req.Any())
		return next(ctx, req)
	}
}

func (unknownFields) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (u unknownFields) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, checkedConn{conn, u})
	}
}

type checkedConn struct {
	connect.StreamingHandlerConn
	u unknownFields
}

func (c checkedConn) Receive(msg any) error {
	err := c.StreamingHandlerConn.Receive(msg)
	if err == nil {
		c.u.check(msg)
	}
	return err
}
