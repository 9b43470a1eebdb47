package caisson_test

import data.caisson
import rego.v1

test_bash_is_denied if caisson.verdict.decision == "deny" with input as {"language": "bash"}

test_python_is_allowed if caisson.verdict.decision == "allow" with input as {"language": "py"}

test_operators_deny if {
	caisson.verdict.decision == "deny" with input as {"language": "php"} with data.config as {"denied": ["php"]}
}
