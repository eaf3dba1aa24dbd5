"""Rules of the server that a schema cannot express."""

import os
import re
import uuid

import schemathesis

# A request that matches the schema may still be rejected, for one of these reasons and for no other.
REASONS = [
    # Names and texts have limits in bytes; a schema counts characters.
    r"has \d+ bytes, and \d+ is the most",
    # A schema accepts 1.0 as a whole number.
    r"floating point `",
    # A pattern cannot limit the duration that a text says.
    r"^ttl must be at least 1 ms",
    r"^ttl is \S+, and \S+ is the most",
    r"^lease is \S+, and must be between",
    r"^rate must be per a time between",
    # A schema cannot limit a time.
    r"^run_at is \S+, and must be between",
    # Names that begin with $ are reserved for Turno, and some headers for the sinks.
    r"^queue begins with \$",
    r"^headers has one that cannot be sent",
    # Fields that depend on each other.
    r"^delay and run_at are both set",
    r"^min_hold is above the ttl",
    r"^max_hold must be at least 1 ms and not below min_hold",
    r"^permits need the mode shared",
    # Ordered waiting is for a single lock. The field exists for several locks only to be rejected with a message.
    r"^first in, first out on several resources could deadlock",
    # The same once key was used before, with other content.
    r"^This key was used with other content",
]


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Gives each request a new id: a repeated id gets the stored response, whatever the rest of the request is."""
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
def rejects_anonymous_callers(ctx, response, case):
    """A caller without a token gets 401 for all operations but the public ones."""
    if os.environ.get("TURNO_CALLER") != "anonymous" or "security" in case.operation.definition.raw:
        return
    # A caller that guesses tokens is soon rate limited.
    assert response.status_code in (401, 429), f"{response.status_code} without a token"
