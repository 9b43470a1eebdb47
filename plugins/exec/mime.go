package exec

import (
	"path"
	"strings"
)

// contentType goes by the extension, from a table of our own: the one of the
// machine differs from machine to machine. Nothing is ever sniffed.
func contentType(name string) string {
	if t, ok := contentTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}

var contentTypes = map[string]string{
	".avif": "image/avif", ".bmp": "image/bmp", ".gif": "image/gif", ".ico": "image/x-icon",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".png": "image/png", ".svg": "image/svg+xml",
	".tif": "image/tiff", ".tiff": "image/tiff", ".webp": "image/webp",
	".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".wav": "audio/wav", ".mp4": "video/mp4", ".webm": "video/webm",
	".css": "text/css", ".csv": "text/csv", ".htm": "text/html",
	".html": "text/html", ".ics": "text/calendar", ".log": "text/plain",
	".md": "text/markdown", ".py": "text/x-python", ".tsv": "text/tab-separated-values",
	".txt": "text/plain", ".yaml": "application/yaml", ".yml": "application/yaml",
	".js": "text/javascript", ".mjs": "text/javascript", ".ts": "text/plain",
	".sh": "text/x-sh", ".json": "application/json", ".ipynb": "application/x-ipynb+json",
	".xml": "application/xml", ".xsd": "application/xml", ".pdf": "application/pdf", ".rtf": "application/rtf",
	".doc": "application/msword", ".xls": "application/vnd.ms-excel", ".ppt": "application/vnd.ms-powerpoint",
	".docx":    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx":    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx":    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".odt":     "application/vnd.oasis.opendocument.text",
	".ods":     "application/vnd.oasis.opendocument.spreadsheet",
	".parquet": "application/vnd.apache.parquet", ".sqlite": "application/vnd.sqlite3", ".db": "application/vnd.sqlite3",
	".7z": "application/x-7z-compressed", ".bz2": "application/x-bzip2", ".gz": "application/gzip", ".rar": "application/vnd.rar",
	".tar": "application/x-tar", ".zip": "application/zip", ".wasm": "application/wasm",
	".eot": "application/vnd.ms-fontobject", ".ttf": "font/ttf", ".woff": "font/woff", ".woff2": "font/woff2",
}
