"""What a server promises beside its description, which is all that a schema can say."""

import os
import re
import uuid

import schemathesis

# A request that fits the schema may still be refused, for one of these reasons and for no other.
REASONS = [
    # Names and texts are bounded in bytes; a schema counts characters.
    r"has \d+ bytes, and \d+ is the most",
    # A schema takes 1.0 for a whole number.
    r"floating point `",
    # How long a text says, no pattern bounds.
    r"^ttl must be at least 1 ms",
    r"^ttl is \S+, and \S+ is the most",
    r"^lease is \S+, and must be between",
    # Names that begin with $ are Turno's own, and some headers the sinks'.
    r"^queue begins with \$",
    r"^headers has one that cannot be sent",
    # Two fields that depend on each other.
    r"^delay and run_at both say when",
    r"^min_hold is above the ttl",
    r"^max_hold must be at least 1 ms and not below min_hold",
    r"^permits are shared, and mode is exclusive",
    # Order is for one lock; it is known for several only to be refused in words.
    r"^standing in several lines at once could block everybody",
    # What was asked before: the same key, with other content.
    r"^This key was used with other content",
]


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Gives each request an id of its own: one that was answered already is answered the same, whatever else it says."""
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("request"), str):
        try:
            uuid.UUID(body["request"])
        except ValueError:
            return
        body["request"] = str(uuid.uuid4())


@schemathesis.check
def is_refused_for_a_known_reason(ctx, response, case):
    if response.status_code != 422 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    detail = response.json()["detail"]
    assert any(re.search(reason, detail) for reason in REASONS), f"the schema does not say so: {detail}"


@schemathesis.check
def lets_nobody_in(ctx, response, case):
    """Whoever has no token gets 401 for everything but what is everybody's."""
    if os.environ.get("TURNO_CALLER") != "nobody" or "security" in case.operation.definition.raw:
        return
    # Whoever guesses at tokens is soon told to wait.
    assert response.status_code in (401, 429), f"{response.status_code} without a token"
