package caisson

verdict := {"decision": "allow", "limits": {"wall_ms": 5000}} if input.language != "bash"

verdict := {"decision": "deny", "code": "language_not_allowed", "reason": "bash is not allowed here"} if {
	input.language == "bash"
}
