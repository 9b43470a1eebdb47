package meter

import "fmt"

// Value and reference types.
const (
	i32Type   = 0x7f
	i64Type   = 0x7e
	f32Type   = 0x7d
	f64Type   = 0x7c
	v128Type  = 0x7b
	funcref   = 0x70
	externref = 0x6f
	blockVoid = 0x40
)

// The opcodes that are treated one by one or written.
const (
	opUnreachable        = 0x00
	opNop                = 0x01
	opBlock              = 0x02
	opLoop               = 0x03
	opIf                 = 0x04
	opElse               = 0x05
	opEnd                = 0x0b
	opBr                 = 0x0c
	opBrIf               = 0x0d
	opBrTable            = 0x0e
	opReturn             = 0x0f
	opCall               = 0x10
	opCallIndirect       = 0x11
	opReturnCall         = 0x12
	opReturnCallIndirect = 0x13
	opDrop               = 0x1a
	opSelect             = 0x1b
	opSelectTyped        = 0x1c
	opLocalGet           = 0x20
	opLocalSet           = 0x21
	opLocalTee           = 0x22
	opGlobalGet          = 0x23
	opGlobalSet          = 0x24
	opTableGet           = 0x25
	opTableSet           = 0x26
	opI32Load            = 0x28
	opI64Load            = 0x29
	opI32Load8U          = 0x2d
	opI32Store           = 0x36
	opI64Store           = 0x37
	opI64Store32         = 0x3e
	opMemorySize         = 0x3f
	opMemoryGrow         = 0x40
	opI32Const           = 0x41
	opI64Const           = 0x42
	opF32Const           = 0x43
	opF64Const           = 0x44
	opI32Eqz             = 0x45
	opI32Ne              = 0x47
	opI32LtU             = 0x49
	opI32GtU             = 0x4b
	opI32LeU             = 0x4d
	opI64LtS             = 0x53
	opI64GtU             = 0x56
	opI32Add             = 0x6a
	opI32Sub             = 0x6b
	opI32Mul             = 0x6c
	opI32RemU            = 0x70
	opI32ShrU            = 0x76
	opI64Add             = 0x7c
	opI64Sub             = 0x7d
	opI64Mul             = 0x7e
	opI64Shl             = 0x86
	opI64ShrU            = 0x88
	opI64ExtendU         = 0xad
	opI64Extend32S       = 0xc4
	opRefNull            = 0xd0
	opRefIsNull          = 0xd1
	opRefFunc            = 0xd2
	opPrefixGC           = 0xfb
	opPrefixMisc         = 0xfc
	opPrefixVector       = 0xfd
	opPrefixAtomic       = 0xfe
)

// Opcodes after opPrefixMisc.
const (
	miscTruncSatLast = 0x07
	miscMemoryInit   = 0x08
	miscDataDrop     = 0x09
	miscMemoryCopy   = 0x0a
	miscMemoryFill   = 0x0b
	miscTableInit    = 0x0c
	miscElemDrop     = 0x0d
	miscTableCopy    = 0x0e
	miscTableGrow    = 0x0f
	miscTableSize    = 0x10
	miscTableFill    = 0x11
)

// Opcodes after opPrefixVector.
const (
	vectorConst       = 0x0c
	vectorShuffle     = 0x0d
	vectorLaneFirst   = 0x15
	vectorLaneLast    = 0x22
	vectorMemoryLane  = 0x54
	vectorMemoryLane2 = 0x5b
	vectorLoadZero32  = 0x5c
	vectorLoadZero64  = 0x5d
)

// vectorHoles are the numbers below 0x100 that no vector instruction has.
var vectorHoles = [4]uint64{
	2: 1<<0x1a | 1<<0x22 | 1<<0x25 | 1<<0x26 | 1<<0x2f | 1<<0x30 | 1<<0x32 | 1<<0x33 | 1<<0x34 | 1<<0x3b,
	3: 1<<0x02 | 1<<0x05 | 1<<0x06 | 1<<0x0f | 1<<0x10 | 1<<0x12 | 1<<0x13 | 1<<0x14 | 1<<0x22 | 1<<0x2e,
}

func isVectorHole(op byte) bool { return vectorHoles[op>>6]>>(op&63)&1 != 0 }

func isValueType(t byte) bool {
	switch t {
	case i32Type, i64Type, f32Type, f64Type, v128Type, funcref, externref:
		return true
	}
	return false
}

// typeProposal names where a type that is refused comes from.
func typeProposal(t byte) string {
	switch t {
	case 0x63, 0x64:
		return " (typed function references)"
	case 0x68, 0x69, 0x74:
		return " (exception handling)"
	case 0x65, 0x66, 0x67, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73:
		return " (garbage collection)"
	}
	return ""
}

// refusedName names an instruction that is not supported, and its proposal.
func refusedName(op byte) string {
	name, proposal := "", ""
	switch op {
	case 0x06:
		name = "try"
	case 0x07:
		name = "catch"
	case 0x08:
		name = "throw"
	case 0x09:
		name = "rethrow"
	case 0x0a:
		name = "throw_ref"
	case 0x18:
		name = "delegate"
	case 0x19:
		name = "catch_all"
	case 0x1f:
		name = "try_table"
	case 0x14:
		name, proposal = "call_ref", "typed function references"
	case 0x15:
		name, proposal = "return_call_ref", "typed function references"
	case 0xd3:
		name, proposal = "ref.eq", "garbage collection"
	case 0xd4:
		name, proposal = "ref.as_non_null", "typed function references"
	case 0xd5:
		name, proposal = "br_on_null", "typed function references"
	case 0xd6:
		name, proposal = "br_on_non_null", "typed function references"
	case opPrefixGC:
		name, proposal = "instructions of prefix 0xfb", "garbage collection"
	case opPrefixAtomic:
		name, proposal = "atomic instructions, prefix 0xfe", "threads"
	default:
		return fmt.Sprintf("opcode %#02x", op)
	}
	if proposal == "" {
		proposal = "exception handling"
	}
	return fmt.Sprintf("%s (%s)", name, proposal)
}

// refusedMisc and refusedVector do the same for instructions with a prefix.
func refusedMisc(op uint32) string {
	switch {
	case op == 0x12:
		return "memory.discard (memory control)"
	case op >= 0x13 && op <= 0x16:
		return fmt.Sprintf("opcode 0xfc %#x (wide arithmetic)", op)
	}
	return fmt.Sprintf("opcode 0xfc %#x", op)
}

func refusedVector(op uint32) string {
	if op >= 0x100 && op <= 0x12f {
		return fmt.Sprintf("opcode 0xfd %#x (relaxed SIMD)", op)
	}
	return fmt.Sprintf("opcode 0xfd %#x", op)
}
