# Generated from the OpenAPI document by tools/clients; change that, and run make generate.
import json
import os
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, NotRequired, TypedDict

# The input that a file is a changed version of.
FileOrigin = TypedDict("FileOrigin", {
    "id": str,
    "storage_session_id": str,
})

# A file of a session.
File = TypedDict("File", {
    "id": str,
    "name": str,
    "contentType": NotRequired[str],
    "entity_id": NotRequired[str],
    "inherited": NotRequired[bool],
    "kind": NotRequired[str],
    "modified_from": NotRequired[FileOrigin],
    "resource_id": NotRequired[str],
    "session_id": NotRequired[str],
    "size": NotRequired[int],
    "storage_session_id": NotRequired[str],
    "version": NotRequired[int],
})

CodeRun = TypedDict("CodeRun", {
    "code": str,
    "lang": str,
    "args": NotRequired[list[str]],
    "entity_id": NotRequired[str],
    "files": NotRequired[list[File]],
    "runtime_session_hint": NotRequired[str],
    "session_id": NotRequired[str],
    "timeout": NotRequired[int],
    "user_id": NotRequired[str],
})

# Counts changed files that could not be handed back.
ArtifactDelivery = TypedDict("ArtifactDelivery", {
    "attempted": int,
    "code": str,
    "delivered": int,
    "failed": int,
    "status": str,
})

PolicyWarning = TypedDict("PolicyWarning", {
    "policy": str,
    "reason": str,
    "code": NotRequired[str],
})

CodeResult = TypedDict("CodeResult", {
    "code": int | None,
    "files": list[File],
    "message": str | None,
    "session_id": str,
    "signal": str | None,
    "status": str | None,
    "stderr": str,
    "stdout": str,
    "wall_time": int,
    "artifact_delivery": NotRequired[ArtifactDelivery],
    "deleted_files": NotRequired[list[str]],
    "error": NotRequired[Any],
    "policy_warnings": NotRequired[list[PolicyWarning]],
    "retry_after_seconds": NotRequired[int],
})

Uploaded = TypedDict("Uploaded", {
    "filename": str,
    "size": int,
    "status": str,
    "error": NotRequired[str],
    "fileId": NotRequired[str],
})

UploadReply = TypedDict("UploadReply", {
    "files": list[Uploaded],
    "message": str,
    "code": NotRequired[str],
    "error": NotRequired[str],
    "session_id": NotRequired[str],
    "status": NotRequired[int],
    "storage_session_id": NotRequired[str],
})

FileMetadata = TypedDict("FileMetadata", {
    "content-type": str,
    "original-filename": str,
})

ListedFile = TypedDict("ListedFile", {
    "contentType": str,
    "etag": str,
    "id": str,
    "lastModified": str,
    "metadata": FileMetadata,
    "name": str,
    "session_id": str,
    "size": int,
    "storage_session_id": str,
    "read_only": NotRequired[bool],
})

Error = TypedDict("Error", {
    "error": Any,
    "message": str,
    "status": int,
    "code": NotRequired[str],
    "request_id": NotRequired[str],
    "retry_after_seconds": NotRequired[int],
})

BASE = os.environ.get("CAISSON_URL", "http://127.0.0.1:8080") + "/v1"
KEY = os.environ.get("CODE_EXEC_API_KEY", "")


def call(method: str, path: str, body: bytes | None = None, content_type: str | None = None) -> bytes:
    headers = {"X-API-Key": KEY}
    if content_type:
        headers["Content-Type"] = content_type
    request = urllib.request.Request(BASE + path, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.read()
    except urllib.error.HTTPError as refused:
        error: Error = json.load(refused)
        raise RuntimeError(f"{error['message']} ({refused.code} {error.get('code')})") from None


def segment(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def run_code(run: CodeRun) -> CodeResult:
    """Run a program and hand back its output and the files that it made."""
    return json.loads(call("POST", "/exec", json.dumps(run).encode(), "application/json"))


def upload_file(name: str, content: bytes, session: str | None = None) -> UploadReply:
    """Store the files of a form in one session, all or none."""
    boundary = uuid.uuid4().hex
    body = b""
    if session:  # fields come before files
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n{session}\r\n'.encode()
    name = name.replace("\\", "\\\\").replace('"', '\\"')
    body += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body += content + f"\r\n--{boundary}--\r\n".encode()
    return json.loads(call("POST", "/upload", body, f"multipart/form-data; boundary={boundary}"))


def list_files(sid: str) -> list[ListedFile]:
    """List the files of a session."""
    return json.loads(call("GET", f"/files/{segment(sid)}"))


def download_file(sid: str, fid: str) -> bytes:
    """Read a file."""
    return call("GET", f"/download/{segment(sid)}/{segment(fid)}")


def delete_file(sid: str, fid: str) -> None:
    """Delete a file."""
    call("DELETE", f"/files/{segment(sid)}/{segment(fid)}")


if __name__ == "__main__":
    stored = upload_file("numbers.csv", b"1,2,3\n")
    program = """
numbers = [int(n) for n in open("numbers.csv").read().split(",")]
print("sum", sum(numbers))
open("squares.txt", "w").write(" ".join(str(n * n) for n in numbers))
"""
    result = run_code({"lang": "py", "code": program, "session_id": stored["session_id"]})
    print(result["stdout"].strip())
    for file in result["files"]:
        print(file["name"], download_file(result["session_id"], file["id"]).decode())
    delete_file(result["session_id"], stored["files"][0]["fileId"])
    print(*(f["metadata"]["original-filename"] for f in list_files(result["session_id"])))
