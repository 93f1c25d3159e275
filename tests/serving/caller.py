"""Calls an ASGI application in process."""

import asyncio
import json


class Caller:
    """Calls an ASGI application as a server would."""

    def __init__(self, app):
        self.app = app

    def __call__(self, path, document=None, method="POST", headers=(), chunks=None, is_json=True):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        parts = chunks or [body]
        head = {"content-type": "application/json", **dict(headers)}
        sent = []

        async def receive():
            part = parts.pop(0)
            if part is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "path": path,
            "method": method,
            "headers": [(k.encode(), v.encode()) for k, v in head.items() if v is not None],
        }
        asyncio.run(self.app(scope, receive, send))
        if not sent:
            return None
        body = sent[1]["body"]
        return sent[0]["status"], dict(sent[0]["headers"]), json.loads(body) if is_json else body
